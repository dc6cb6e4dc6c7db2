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
const hasEverything = value => value.everything === value;
const valueUnder = key => {
    if (key === null || key === undefined) return undefined;
    if (typeof key === 'string') return globalThis[Symbol.for('value or undefined')](key);
    if (hasEverything(key)) return key;
    throw new Error(`Argument '${key}' was of type '${typeof key}', but either string or array of strings `
        + 'was expected.');
};
const globals = {
    // What is not found is left out of the index, so it is undefined here and not null.
    load: function load(id, collection) {
        if (arguments.length !== 2 || typeof collection !== 'string')
            throw new Error("load(id, collection) needs the collection, as in load(u.Product, 'Products')");
        return globalThis.load(id, collection) ?? undefined;
    },
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
