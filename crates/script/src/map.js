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
const globals = {
    // What is not found is left out of the index, so it is undefined here and not null.
    load: function load(id, collection) {
        if (arguments.length !== 2 || typeof collection !== 'string')
            throw new Error("load(id, collection) needs the collection, as in load(u.Product, 'Products')");
        return globalThis.load(id, collection) ?? undefined;
    },
    cmpxchg: key => globalThis.cmpxchg(key) ?? undefined,
    map: (collection, fn) => add('documents', collection, null, fn),
    timeSeries: bySeries('timeSeries'),
    counters: bySeries('counters'),
    groupBy: group => {
        definition.group = group;
        return Object.freeze({ aggregate: fn => { definition.aggregate = fn; } });
    },
};
