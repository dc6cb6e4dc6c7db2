// What scripts find in the global scope beside the language. Runs once per engine, in strict mode, as the
// body of a function; `host` holds the functions that reach outside. Everything is frozen at its end, so
// that no script can change what the next one sees.

const define = (name, value) => Object.defineProperty(globalThis, name, { value });

const isText = value => typeof value === 'string';
const makeProxy = globalThis.Proxy;

// An error of a function below that names why it refused its arguments; the caller of the script is told.
const refused = name => message => Object.assign(new Error(message), { name });
const wrongCall = refused('CallRefused');
const wrongValue = refused('ValueRefused');
const notHere = refused('NotHere');
const renamed = refused('Renamed');

// --- documents -------------------------------------------------------------------------------------

define('id', function id(document) {
    if (arguments.length !== 1) throw wrongCall('id(doc) must be called with a single argument');
    return host.id(document);
});
define('getMetadata', function getMetadata(document) {
    if (isProbe(document)) return document;
    if (document === null || typeof document !== 'object') throw wrongValue('The value is not an object');
    const metadata = host.metadata(document);
    if (metadata === undefined)
        throw wrongCall('getMetadata(doc) must be called with a single entity argument');
    return metadata;
});
define('metadataFor', globalThis.getMetadata);
define('lastModified', document => host.lastModified(document));
define('load', function load(ids, collection) {
    if (arguments.length === 0)
        throw wrongCall('load(id | ids) must be called with a single string argument');
    if (ids === null || ids === undefined || isProbe(ids)) return ids;
    if (isText(ids)) return host.load(ids, collection);
    if (!Array.isArray(ids))
        throw wrongCall('load(id | ids) must be called with a single string or array argument');
    return ids.map(id => isText(id) ? host.load(id, collection) ?? null : null);
});
define('loadPath', (document, path) => {
    if (!isText(path)) throw wrongCall('loadPath(doc, path) must be called with a document and path');
    let found = [document];
    for (const step of path.split('.')) {
        const name = step.endsWith('[]') ? step.slice(0, -2) : step;
        found = found.flatMap(value => {
            const next = value === null || value === undefined ? undefined : value[name];
            return Array.isArray(next) ? next : [next];
        });
    }
    const loaded = found.map(id => isText(id) ? host.load(id) ?? null : null);
    return loaded.length === 1 && !path.includes('[]') ? loaded[0] : loaded;
});
define('put', function put(id, document, changeVector) {
    if (arguments.length !== 2 && arguments.length !== 3)
        throw wrongCall('put(id, doc, changeVector) must be called with called with 2 or 3 arguments only');
    if (id !== null && id !== undefined && !isText(id))
        throw wrongCall('The first parameter to put(id, doc, changeVector) must be a string');
    if (isText(id) && id.endsWith('|'))
        throw notHere(`Document ids cannot end with '|', but was called with ${id}. `
            + 'Identities are only generated for external requests, not calls to PutDocument and such.');
    if (document === null || typeof document !== 'object')
        throw wrongCall('Created document must be a valid object which is not null or empty. '
            + `Document ID: '${id}'.`);
    return host.put(id, document, changeVector);
});
define('del', function del(id, changeVector) {
    if (arguments.length === 0)
        throw wrongCall('delete(id, changeVector) must be called with at least one parameter');
    if (!isText(id)) throw wrongCall('delete(id, changeVector) id argument must be a string');
    return host.del(id, changeVector);
});
for (const [old, name] of [['PutDocument', 'put'], ['LoadDocument', 'load'], ['DeleteDocument', 'del']])
    define(old, () => { throw renamed(`The method ${old} was renamed to '${name}'`); });
define('include', id => {
    for (const one of Array.isArray(id) ? id : [id]) if (isText(one)) host.include(one);
    return undefined;
});
// What the caller wants to be included, by its kind; each call returns the object itself.
const textsOf = (given, call) => {
    if (given === undefined || given === null) return [];
    if (!isText(given) && !Array.isArray(given))
        throw wrongCall(`${call} must be called with an string or string array argument`);
    return Array.isArray(given) ? given.filter(isText) : [given];
};
define('includes', Object.freeze({
    document(id) {
        for (const one of textsOf(id, 'include(doc)')) host.include(one);
        return this;
    },
    cmpxchg(key) {
        if (arguments.length !== 1)
            throw wrongCall('includes.cmpxchg(key) must be called with a single argument');
        for (const one of textsOf(key, 'includes.cmpxchg(key)')) host.includeValue(one);
        return this;
    },
    revisions() { throw notHere('includes.revisions() is not supported yet'); },
}));
define('cmpxchg', key => {
    if (isProbe(key)) return key;
    if (!isText(key)) throw wrongCall('cmpxchg(key) must be called with a single string argument');
    return host.cmpxchg(key) ?? null;
});
define(Symbol.for('value or undefined'), key => host.cmpxchg(key));
// What only index definitions have, by the names there.
define(Symbol.for('of index definitions'), Object.freeze({
    loadUntracked: (id, collection) => host.loadUntracked(id, collection),
    attachment: (document, name) => host.attachment(host.id(document), name),
    attachments: document => host.attachments(host.id(document)),
    idOf: document => host.id(document),
}));
// What only transformations of ETL tasks have.
define(Symbol.for('of transformations'), Object.freeze({
    metadata: document => host.metadata(document),
    loadTo: (collection, object) => host.loadTo(collection, object),
    addAttachment: (number, name, newName) => host.addAttachment(number, name, newName),
    addCounter: (number, name) => host.addCounter(number, name),
    addTimeSeries: (number, name, from, to) => host.addTimeSeries(number, name, from, to),
}));
// What only scripts of the administrators' console have.
define(Symbol.for('of consoles'), Object.freeze({
    operate: (operation, ...values) => host.operate(operation, values),
}));

const namesIn = (document, name) => {
    if (isProbe(document)) return document;
    const metadata = host.metadata(document);
    return metadata === undefined ? undefined : metadata[name];
};
define('attachmentsFor', document => namesIn(document, '@attachments'));
define('counterNamesFor', document => namesIn(document, '@counters'));
define('timeSeriesNamesFor', document => namesIn(document, '@timeseries'));

// --- counters and time series ----------------------------------------------------------------------

const ownerOf = (document, call) => {
    const id = isText(document) || document === null ? document : host.id(document);
    if (!isText(id))
        throw wrongCall(`${call}: 'doc' must be a string argument (the document id) or the actual `
            + 'document instance itself');
    return id;
};
const counterNamed = (name, call) => {
    if (!isText(name) || name === '')
        throw wrongCall(`${call}: 'name' must be a non-empty string argument`);
    return name;
};
for (const read of ['counter', 'counterRaw'])
    define(read, function (document, name) {
        if (isProbe(document)) return document;
        const call = `${read}(doc, name)`;
        if (arguments.length !== 2) throw wrongCall(`${call} must be called with exactly 2 arguments`);
        if (!isText(name)) throw wrongCall(`${call}: 'name' must be a string argument`);
        return host[read](ownerOf(document, call), name);
    });
define('incrementCounter', function incrementCounter(document, name, value = 1) {
    if (arguments.length !== 2 && arguments.length !== 3)
        throw wrongCall(`There is no overload of method 'incrementCounter' that takes ${arguments.length} `
            + "arguments.Supported overloads are : 'incrementCounter(doc, name)' , "
            + "'incrementCounter(doc, name, value)'");
    const call = `incrementCounter(doc, name${arguments.length === 3 ? ', value' : ''})`;
    if (typeof value !== 'number') throw wrongCall(`${call}: 'value' must be a number argument`);
    return host.incrementCounter(ownerOf(document, call), counterNamed(name, call), value);
});
define('deleteCounter', function deleteCounter(document, name) {
    const call = 'deleteCounter(doc, name)';
    if (arguments.length !== 2) throw wrongCall(`${call} must be called with exactly 2 arguments`);
    return host.deleteCounter(ownerOf(document, call), counterNamed(name, call));
});
// The forms in which a moment may be written: a year, a month, a day, a minute, a second, or parts of it.
const MOMENT = /^\d{4}(-\d\d(-\d\d(T\d\d:\d\d(:\d\d(\.(\d{3}|\d{7})Z?)?)?)?)?)?$/;
const moment = value => {
    if (value === null || value === undefined) return undefined;
    if (value instanceof Date) return value.getTime();
    if (!isText(value)) throw wrongValue('A moment of a time series must be a Date or a text');
    const text = value.slice(0, 23).replace('Z', '');
    const millis = MOMENT.test(value) ? Date.parse(text.includes('T') ? text + 'Z' : text) : NaN;
    if (Number.isNaN(millis))
        throw wrongValue(`Unable to parse timeseries from/to values. Got: ${value}\n`
            + 'The supported time formats are:\nyyyy\nyyyy-MM\nyyyy-MM-dd\nyyyy-MM-ddTHH:mm\n'
            + 'yyyy-MM-ddTHH:mm:ss\nyyyy-MM-ddTHH:mm:ss.fff\nyyyy-MM-ddTHH:mm:ss.fffZ\n'
            + 'yyyy-MM-ddTHH:mm:ss.fffffff\nyyyy-MM-ddTHH:mm:ss.fffffffZ');
    return millis;
};
const numbers = values => (Array.isArray(values) ? values : [values]).map(Number);
define('timeseries', function timeseries(document, series) {
    if (arguments.length !== 2)
        throw wrongCall('timeseries(doc, name): This method requires 2 arguments but was called with '
            + arguments.length);
    const id = ownerOf(document, 'timeseries(doc, name)');
    if (!isText(series))
        throw wrongCall("timeseries(doc, name): The 'name' argument should be a string");
    return {
        append: (at, values, tag) => host.timeSeriesAppend(id, series, moment(at), numbers(values), tag),
        increment: (at, values) => values === undefined
            ? host.timeSeriesIncrement(id, series, Date.now(), numbers(at))
            : host.timeSeriesIncrement(id, series, moment(at), numbers(values)),
        delete: (from, to) => host.timeSeriesDelete(id, series, moment(from), moment(to)),
        get: (from, to) => host.timeSeriesGet(id, series, moment(from), moment(to)),
        getStats: () => {
            const stats = host.timeSeriesStats(id, series);
            return { Start: new Date(stats.Start), End: new Date(stats.End), Count: stats.Count };
        },
    };
});
define('timeSeriesQuery', (name, values) => host.timeSeriesQuery(name, values));

// --- index fields ----------------------------------------------------------------------------------

define('createField', ($name, $value, $options) => ({ $value, $name, $options: $options ?? {} }));
define('createSpatialField', function createSpatialField(first, second) {
    return arguments.length > 1 ? { $spatial: [first, second] } : { $spatial: first };
});
define('boost', ($value, $boost) => ({ $value, $boost }));

// --- texts, numbers, output ------------------------------------------------------------------------

const bothTexts = (name, a, b) => {
    if (!isText(a) || !isText(b))
        throw wrongCall(`${name}(text, contained) must be called with two string parameters`);
};
define('startsWith', (text, start) => {
    bothTexts('startsWith', text, start);
    return text.toLowerCase().startsWith(start.toLowerCase());
});
define('endsWith', (text, end) => {
    bothTexts('endsWith', text, end);
    return text.toLowerCase().endsWith(end.toLowerCase());
});
define('regex', (text, pattern) => {
    if (!isText(text) || !isText(pattern))
        throw wrongCall('regex(text, regex) must be called with two string parameters');
    return new RegExp(pattern, 'i').test(text);
});
const extreme = (name, isLess) => define(name, function (a, b) {
    if (arguments.length !== 2) throw new Error(`${name} must be called with exactly two arguments`);
    if (a === null || a === undefined) return isLess ? a : b;
    if (b === null || b === undefined) return isLess ? b : a;
    if (typeof a !== typeof b) return typeof a === 'number' ? (isLess ? a : b) : (isLess ? b : a);
    return (a < b) === isLess ? a : b;
});
extreme('Raven_Min', true);
extreme('Raven_Max', false);
define('tryConvertToNumber', value => {
    if (typeof value === 'number') return value;
    const number = isText(value) && value.trim() !== '' ? Number(value) : NaN;
    return Number.isNaN(number) ? null : number;
});
// The LINQ provider of the .NET client writes calls of the next three into its queries. A moment is a
// Date or a text of a document.
const momentOf = value => value instanceof Date ? value.getTime() : value;
const isMoment = value => (value instanceof Date || isText(value)) && host.isMoment(momentOf(value));
// The name of a culture; yy-MM and dd-MM are formats of moments.
const CULTURE_NAME = /^(?!dd|hh|mm|yy)[a-z]{2,3}-[A-Z]{2}$/;
define('toStringWithFormat', function toStringWithFormat(value, ...options) {
    if (arguments.length < 1 || 3 < arguments.length)
        throw wrongCall(`No overload for method 'toStringWithFormat' takes ${arguments.length} arguments. `
            + 'Supported overloads are : toStringWithFormat(object), toStringWithFormat(object, format), '
            + 'toStringWithFormat(object, culture), toStringWithFormat(object, format, culture).');
    if (!options.every(isText))
        throw wrongCall("toStringWithFormat : 'format' and 'culture' must be string arguments");
    let [format, culture] = ['', ''];
    for (const option of options.filter(option => option !== ''))
        if (host.isCulture(option)) culture = option;
        else if (CULTURE_NAME.test(option))
            throw notHere(`The culture '${option}' is not supported yet; use 'en-US' or none`);
        else format = option;
    if (isProbe(value)) return value;
    if (typeof value === 'boolean') return value ? 'True' : 'False';
    if (typeof value === 'number') {
        const text = host.numberText(value, format, culture);
        if (text === undefined) throw wrongValue('Format specifier was invalid.');
        return text;
    }
    if (isText(value) && !isMoment(value))
        throw wrongCall("toStringWithFormat(dateString) : 'dateString' is not a valid DateTime string");
    if (!isMoment(value)) {
        const kind = value === null ? 'Null' : value === undefined ? 'Undefined' : 'Object';
        throw wrongCall(`toStringWithFormat() is not supported for objects of type ${kind} `);
    }
    const text = host.momentText(momentOf(value), format, culture);
    if (text === undefined) throw wrongValue('Input string was not in a correct format.');
    return text;
});
// By the names that .NET has for the operators.
const comparisons = Object.freeze({
    __proto__: null,
    Equal: sign => sign === 0,
    NotEqual: sign => sign !== 0,
    LessThan: sign => sign < 0,
    LessThanOrEqual: sign => sign <= 0,
    GreaterThan: sign => sign > 0,
    GreaterThanOrEqual: sign => sign >= 0,
});
define('compareDates', function compareDates(one, other, operation = 'Subtract') {
    if (arguments.length !== 2 && arguments.length !== 3)
        throw wrongCall('compareDates(date1, date2, binaryOp) must be called with two or three arguments');
    if (isProbe(one) || isProbe(other)) return isProbe(one) ? one : other;
    for (const [name, value] of [['date1', one], ['date2', other]])
        if (!isMoment(value))
            throw wrongValue(`compareDates(date1, date2, binaryOp) : ${name} must be of type `
                + "'DateInstance' or a DateTime string.");
    if (operation === 'Subtract') return host.momentDifference(momentOf(one), momentOf(other));
    if (!isText(operation) || !(operation in comparisons))
        throw wrongCall(`compareDates(date1, date2, binaryOp) : unsupported binary operation '${operation}'`);
    return comparisons[operation](host.comparedMoments(momentOf(one), momentOf(other)));
});
// Halves are rounded to the even neighbour, as .NET does.
const rounded = number => {
    const whole = Math.floor(number);
    const rest = number - whole;
    return rest < 0.5 || (rest === 0.5 && whole % 2 === 0) ? whole : whole + 1;
};
define('convertToTimeSpanString', function convertToTimeSpanString(...parts) {
    const overloads = { 1: '(ticks)', 3: '(hours, minutes, seconds)', 4: '(days, hours, minutes, seconds)',
        5: '(days, hours, minutes, seconds, milliseconds)' };
    const name = 'convertToTimeSpanString';
    if (!(parts.length in overloads))
        throw wrongCall('supported overloads are: '
            + Object.values(overloads).map(overload => name + overload).join(', '));
    if (parts.some(isProbe)) return parts.find(isProbe);
    if (!parts.every(Number.isFinite))
        throw wrongCall(`${name}${overloads[parts.length]} must be called with numbers`);
    let ticks = rounded(parts[0]);
    if (parts.length > 1) {
        const [days, hours, minutes, seconds, millis = 0] = parts.length === 3 ? [0, ...parts] : parts;
        const units = [[days, 86400000], [hours, 3600000], [minutes, 60000], [seconds, 1000], [millis, 1]];
        ticks = units.reduce((sum, [count, unit]) => sum + rounded(count) * unit, 0) * 10000;
    }
    const text = host.spanText(ticks);
    if (text === undefined) throw wrongValue(`${name}: the duration is too long`);
    return text;
});
define('convertJsTimeToTimeSpanString', millis => {
    if (typeof millis !== 'number' || !Number.isFinite(millis))
        throw new Error('convertJsTimeToTimeSpanString(ticks) must be called with a single long argument');
    const pad = (number, digits) => String(number).padStart(digits, '0');
    const whole = Math.round(Math.abs(millis));
    const days = Math.floor(whole / 86400000);
    const rest = whole % 1000;
    return (millis < 0 ? '-' : '') + (days > 0 ? `${days}.` : '')
        + `${pad(Math.floor(whole / 3600000) % 24, 2)}:${pad(Math.floor(whole / 60000) % 60, 2)}:`
        + pad(Math.floor(whole / 1000) % 60, 2) + (rest > 0 ? `.${pad(rest, 3)}0000` : '');
});
// A number of a document keeps its digits, also those that numbers of scripts do not have. It is an object:
// a whole number counts as a number where a script computes with it, any other as its text.
const RAW_DIGITS = Symbol.for('digits of a stored number');
const rawNumber = Object.freeze({
    valueOf() {
        const digits = this[RAW_DIGITS];
        return /^-?\d+$/.test(digits) ? Number(digits) : digits;
    },
    toString() { return this[RAW_DIGITS]; },
});
// The names of the members that a path reads, each from the one before; none when it does anything else.
const namesRead = path => {
    const namesOf = new Map();
    const reader = names => {
        const made = new makeProxy({}, { get: (target, name) => reader([...names, name]) });
        namesOf.set(made, names);
        return made;
    };
    try {
        return namesOf.get(path(reader([]))) ?? [];
    } catch {
        // It computes something, so no stored number is its result.
        return [];
    }
};
define('scalarToRawString', (document, path) => {
    const value = path(document);
    if (typeof value !== 'number') return value;
    const names = namesRead(path);
    if (names.length === 0 || !names.every(isText)) return value;
    const name = names.pop();
    const owner = names.reduce((outer, inner) => outer[inner], document);
    const digits = host.storedDigits(owner, name);
    if (digits === undefined || digits === String(value)) return value;
    return Object.create(rawNumber, { [RAW_DIGITS]: { value: digits } });
});
define('output', line => host.output(line));
define('console', Object.freeze({ log: line => host.output(line) }));
// A degree of a great circle has 60 nautical miles, taken as 1.1515 miles each: the constants of the
// protocol's other speakers, whose results shall be met to the last digits.
// The order of the operations matters for those.
const NAUTICAL_MILES_PER_DEGREE = 60;
const MILES_PER_NAUTICAL_MILE = 1.1515;
const KILOMETERS_PER_MILE = 1 / 0.621371192;
define('spatial', Object.freeze({
    distance: function distance(lat1, lng1, lat2, lng2, units) {
        if (arguments.length < 4 || arguments.length > 5)
            throw new Error('Called with unexpected number of arguments, expected: '
                + 'spatial.distance(lat1, lng1, lat2, lng2, kilometers | miles | cartesian)');
        if ([lat1, lng1, lat2, lng2].some(value => typeof value !== 'number')) return undefined;
        if (units !== undefined && !['kilometers', 'miles', 'cartesian'].includes(units))
            throw new Error(`Unable to parse units ${units}, expected: 'kilometers' or 'miles'`);
        if (units === 'cartesian') return Math.hypot(lat2 - lat1, lng2 - lng1);
        if (lat1 === lat2 && lng1 === lng2) return 0;
        const radians = degrees => degrees * (Math.PI / 180);
        const cosine = Math.sin(radians(lat1)) * Math.sin(radians(lat2))
            + Math.cos(radians(lat1)) * Math.cos(radians(lat2)) * Math.cos(radians(lng1 - lng2));
        const degrees = Math.acos(Math.max(-1, Math.min(1, cosine))) * (180 / Math.PI);
        const miles = degrees * NAUTICAL_MILES_PER_DEGREE * MILES_PER_NAUTICAL_MILE;
        return units === 'miles' ? miles : miles * KILOMETERS_PER_MILE;
    },
}));
define('archived', Object.freeze({
    archiveAt: function archiveAt(document, time) {
        if (arguments.length !== 2)
            throw wrongCall('archiveAt(doc, utcDateTimeString) must be called with two args');
        if (!isText(time) && !(time instanceof Date))
            throw wrongCall('archiveAt(doc, utcDateTimeString) must take string as the second argument');
        if (!document['@metadata']) document['@metadata'] = {};
        document['@metadata']['@archive-at'] = isText(time) ? time : time.toISOString();
    },
    unarchive: function unarchive(document) {
        if (arguments.length !== 1)
            throw wrongCall('unarchive(doc) must be called with a single argument');
        if (document['@metadata']) delete document['@metadata']['@archived'];
    },
}));
Object.defineProperty(Object, 'map', {
    value: (object, fn) => Object.entries(object).map(([key, value]) => fn(value, key)),
});
Object.defineProperty(String.prototype, 'format', {
    value: function format(...values) {
        return this.replace(/\{(\d+)\}/g, (whole, index) => index in values ? values[index] : whole);
    },
});

// --- a document that has everything ----------------------------------------------------------------

// Index definitions are run over it to learn the names of their fields without a document. Every member
// of it is itself, loops over it see one element, and it compares as the number that it was made with.

const IS_PROBE = Symbol('probe');
const UNKNOWN = '\u0001';
const isProbe = value => typeof value === 'object' && value !== null && value[IS_PROBE] === true;
const makeProbe = number => {
    const onElement = fn => fn(probe, 0, probe);
    const members = {
        __proto__: null,
        [IS_PROBE]: true,
        [Symbol.toPrimitive]: hint => hint === 'number' ? number : UNKNOWN,
        [Symbol.iterator]: function* () { yield probe; },
        length: 1,
        map: fn => [onElement(fn)],
        flatMap: fn => [onElement(fn)].flat(),
        forEach: fn => { onElement(fn); },
        reduce: (fn, initial) => fn(initial === undefined ? probe : initial, probe, 0, probe),
        toString: () => UNKNOWN,
    };
    const probe = new makeProxy([], {
        get: (target, name) => name in members ? members[name] : probe,
        has: () => true,
        set: () => true,
        deleteProperty: () => true,
    });
    return probe;
};
const isWrapped = value => typeof value === 'object' && value !== null && !isProbe(value)
    && ('$value' in value || '$spatial' in value);
const addField = (name, value, names) => {
    if (!isProbe(value) && Array.isArray(value) && value.some(isWrapped))
        value.forEach(one => addField(name, one, names));
    else names.add(isWrapped(value) && '$name' in value ? String(value.$name) : name);
};
const addFields = (result, names) => {
    if (isProbe(result)) names.add(UNKNOWN);
    else if (Array.isArray(result)) result.forEach(one => addFields(one, names));
    else if (isWrapped(result) && '$boost' in result) addFields(result.$value, names);
    else if (typeof result === 'object' && result !== null)
        Object.entries(result).forEach(([name, value]) => addField(name, value, names));
};
define(Symbol.for('names of fields'), fn => {
    const names = new Set();
    let isKnown = false;
    for (const document of [makeProbe(1), makeProbe(1e15), makeProbe(-1e15), {}])
        try {
            addFields(fn(document), names);
            isKnown = true;
        } catch {
            // It may not be meant for such a document; one that it runs over tells enough.
        }
    return isKnown ? [...names] : [UNKNOWN];
});
define(Symbol.for('names of group keys'), fn => {
    const names = new Set();
    const entry = new makeProxy({}, {
        get: (target, name) => {
            if (typeof name === 'string') names.add(name);
            return makeProbe(1);
        },
    });
    try {
        fn(entry);
    } catch {
        // What it reads before it fails, it reads of every entry.
    }
    return [...names];
});

// --- the language itself ---------------------------------------------------------------------------

// Text may not become code: what a script does can be read in its text.
for (const name of ['Promise', 'WeakRef', 'FinalizationRegistry',
    'SharedArrayBuffer', 'Atomics', 'ArrayBuffer', 'DataView', 'queueMicrotask', 'gc', 'BigInt',
    'performance', 'navigator', 'DOMException', 'AsyncDisposableStack', 'DisposableStack'])
    delete globalThis[name];
// Names that scripts of other servers use: calling one is an error, where an unknown name would be null.
const refuseCalls = reasons => Object.entries(reasons).forEach(([name, reason]) =>
    Object.defineProperty(globalThis, name, { value: function () { throw notHere(`${name}: ${reason}`); } }));
refuseCalls({
    eval: 'text cannot become code',
    Proxy: 'there are no proxies here',
    count: 'count() can only be called where a query groups',
    key: 'key() can only be called where a query groups',
    sum: 'sum(x => x.Field) can only be called where a query groups',
    Raven_ExplodeArgs: 'the arguments of a patch are called args',
});
const noCode = function Function() { throw new EvalError('String compilation is disabled'); };
noCode.prototype = Function.prototype;
Object.defineProperty(globalThis, 'Function', { value: noCode });
for (const kind of [function () {}, function* () {}, async function () {}, async function* () {}]) {
    const prototype = Object.getPrototypeOf(kind);
    Object.defineProperty(prototype, 'constructor', { value: noCode });
}

// Calls on `undefined` of functions that arrays have see an empty array; `length` is 0. Everything else
// that is read from undefined or null is null. The engine looks here.
define(Symbol.absentMembers, Object.freeze({
    __proto__: null,
    length: 0,
    map: () => [],
    filter: () => [],
    reverse: () => [],
    concat: (...values) => [].concat(...values),
    some: () => false,
    every: () => true,
    includes: () => false,
    reduce: (fn, initial) => initial === undefined ? null : initial,
}));

const seen = new Set();
const freeze = value => {
    if ((typeof value !== 'object' && typeof value !== 'function') || value === null || seen.has(value))
        return;
    seen.add(value);
    for (const key of Reflect.ownKeys(value)) {
        const property = Reflect.getOwnPropertyDescriptor(value, key);
        freeze(property.value);
        freeze(property.get);
        freeze(property.set);
    }
    freeze(Object.getPrototypeOf(value));
    if (value !== globalThis) Object.freeze(value);
};
freeze(globalThis);
freeze(host.documentPrototype);
for (const hidden of [function* () {}, async function () {}, async function* () {}, [][Symbol.iterator](),
    ''[Symbol.iterator](), new Map().entries(), new Set().values(), 'a'.matchAll(/a/g)])
    freeze(Object.getPrototypeOf(hidden));
Object.freeze(globalThis);
