const definition = {
    maps: [],
    functions: [],
    group: undefined,
    aggregate: undefined,
    fieldsOf: globalThis[Symbol.for('names of fields')],
    groupFieldsOf: globalThis[Symbol.for('names of group keys')],
};
const add = (kind, collection, series, fn) => {
    definition.maps.push({ kind, collection, series });
    definition.functions.push(fn);
};
// Both names may be left out: the series' first, then the collection's.
const bySeries = kind => Object.freeze({
    map: (...names) => {
        const fn = names.pop();
        add(kind, names.length === 0 ? '@all_docs' : names[0], names[1] ?? null, fn);
    },
});
// Every member of the document over which names of fields are found is that document.
const hasEverything = value => typeof value === 'object' && value !== null && value.everything === value;
const valueUnder = key => {
    if (key === null || key === undefined) return nothing;
    if (typeof key === 'string') {
        const value = globalThis[Symbol.for('value or undefined')](key);
        return value === undefined ? nothing : value;
    }
    if (hasEverything(key)) return key;
    throw new Error(`Argument '${key}' was of type '${typeof key}', but either string or array of strings `
        + 'was expected.');
};
// What is not found, and the members of that, are null to the script and left out of the index.
const nothing = null[Symbol.absentMembers];
const natives = globalThis[Symbol.for('of index definitions')];
const isAbsent = value => value === null || value === undefined;
const loadWith = (name, find) => function (id, collection) {
    if (arguments.length !== 2)
        throw new Error(`${name} method is expecting two arguments, the first should be the document and the `
            + "second should be the collection. e.g. load(u.Product,'Products') but was invoked with "
            + `${arguments.length} arguments.`);
    if (hasEverything(id)) return id;
    if (isAbsent(id)) return nothing;
    if (typeof id !== 'string' || typeof collection !== 'string')
        throw new Error(`The ${name}(id, collection) method expects two string arguments`);
    return find(id, collection) ?? nothing;
};
// The document whose attachments are asked for; absent documents have none.
const isOwner = (name, document, position) => {
    if (isAbsent(document)) return false;
    if (typeof natives.idOf(document) === 'string') return true;
    throw new Error(`${name} may only be called with a non-null entity as ${position} parameter, but was `
        + `called with a parameter of type ${typeof document}.`);
};
const attachmentsOf = Object.freeze({
    one: function loadAttachment(document, name) {
        if (arguments.length !== 2)
            throw new Error('LoadAttachment may only be called with two arguments, but '
                + `'${arguments.length}' were passed.`);
        if (hasEverything(document)) return document;
        if (!isOwner('LoadAttachment', document, 'a first')) return nothing;
        if (typeof name !== 'string')
            throw new Error('LoadAttachment may only be called with a string, but was called with a '
                + `parameter of type ${typeof name}.`);
        return natives.attachment(document, name) ?? nothing;
    },
    all: function loadAttachments(document) {
        if (arguments.length !== 1)
            throw new Error('LoadAttachments may only be called with one argument, but '
                + `'${arguments.length}' were passed.`);
        if (hasEverything(document)) return document;
        return isOwner('LoadAttachments', document, 'a') ? natives.attachments(document) : nothing;
    },
});
// The names of what a document has, beside its properties; none is an empty list.
const namesOf = (name, find) => function (document) {
    if (hasEverything(document)) return document;
    if (arguments.length === 1 && (isAbsent(document) || typeof document !== 'object'))
        throw new Error('The value is not an object');
    if (arguments.length !== 1 || typeof natives.idOf(document) !== 'string')
        throw new Error(`${name} must be called with a single entity argument`);
    return find(document) ?? [];
};
// A thing, what `below` returns for it, what it returns for that, and so on, level by level. Each thing comes
// once, and a document however often it is loaded: documents may name each other in a circle.
const RECURSED_MAX = 1000000;
const recurse = function recurse(item, below) {
    if (arguments.length !== 2)
        throw new Error(`The recurse(item, func) method expects two arguments, but got: ${arguments.length}`);
    if (typeof below !== 'function')
        throw new Error('The second argument in recurse(item, func) must be an arrow function.');
    if (hasEverything(item)) return [item];
    const found = [], values = new Set(), ids = new Set();
    const add = value => {
        if (value === undefined) return;
        const id = isAbsent(value) ? null : natives.idOf(value);
        const [seen, mark] = typeof id === 'string' ? [ids, id.toLowerCase()] : [values, value];
        if (seen.has(mark)) return;
        if (found.length === RECURSED_MAX) throw new Error('recurse(item, func) finds too much');
        seen.add(mark);
        found.push(value);
    };
    add(item);
    for (let next = 0; next < found.length; next++) {
        const items = below(found[next]);
        if (Array.isArray(items)) items.forEach(add);
        else add(items);
    }
    return found;
};
const globals = {
    load: loadWith('load', globalThis.load),
    noTracking: Object.freeze({ load: loadWith('noTracking.load', natives.loadUntracked) }),
    loadAttachment: attachmentsOf.one,
    loadAttachments: attachmentsOf.all,
    attachmentsFor: namesOf('attachmentsFor(doc)', globalThis.attachmentsFor),
    counterNamesFor: namesOf('counterNamesFor(doc)', globalThis.counterNamesFor),
    timeSeriesNamesFor: namesOf('timeSeriesNamesFor(doc)', globalThis.timeSeriesNamesFor),
    recurse,
    cmpxchg: function cmpxchg(key) {
        if (arguments.length !== 1)
            throw new Error(`The cmpxchg(key) method expects one argument, but got: ${arguments.length}`);
        return Array.isArray(key) && !hasEverything(key) ? key.map(valueUnder) : valueUnder(key);
    },
    map: (collection, fn) => add('documents', collection, null, fn),
    timeSeries: bySeries('timeSeries'),
    counters: bySeries('counters'),
    groupBy: group => {
        definition.group = group;
        return Object.freeze({ aggregate: fn => { definition.aggregate = fn; } });
    },
};
