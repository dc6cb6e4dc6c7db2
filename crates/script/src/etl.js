const natives = globalThis[Symbol.for('of transformations')];
const isText = value => typeof value === 'string';
const wrong = message => { throw new Error(message); };
// The document that is transformed.
let current;
const listed = name => {
    const metadata = natives.metadata(current);
    const found = metadata === undefined ? undefined : metadata[name];
    return Array.isArray(found) ? found : [];
};
const sameText = (one, other) => isText(one) && isText(other) && one.toLowerCase() === other.toLowerCase();
const nameOf = (name, call) => isText(name) && name !== '' ? name
    : wrong(`${call}(name) must be called with a non-empty string argument`);
// What is loaded of the document is a reference: it is read when what refers to it is sent.
const KIND = Symbol('kind');
const reference = (kind, name, range) => Object.freeze({ [KIND]: kind, name, ...range });
const referenceOf = (value, kind, call, source) =>
    value === null || (typeof value === 'object' && value[KIND] === kind)
        ? value : wrong(`${call}: the argument must be what ${source}(name) returned`);
const hasAttachment = name => {
    const wanted = nameOf(name, 'hasAttachment');
    return listed('@attachments').some(attachment => sameText(attachment.Name, wanted));
};
const hasCounter = name => {
    const wanted = nameOf(name, 'hasCounter');
    return listed('@counters').some(counter => sameText(counter, wanted));
};
const hasTimeSeries = name => {
    const wanted = nameOf(name, 'hasTimeSeries');
    return listed('@timeseries').some(series => sameText(series, wanted));
};
const moment = (value, call) => {
    if (value === undefined || value === null) return undefined;
    const millis = value instanceof Date ? value.getTime() : isText(value) ? Date.parse(value) : NaN;
    return Number.isNaN(millis) ? wrong(`${call}: a moment must be a Date, or a text such as `
        + "'2020-01-31T12:00:00Z'") : millis;
};
const loaded = number => Object.freeze({
    addAttachment(...values) {
        const call = 'addAttachment([name,] attachment)';
        if (values.length !== 1 && values.length !== 2)
            wrong(`${call} must be called with one or two arguments`);
        const attachment = referenceOf(values[values.length - 1], 'attachment', call, 'loadAttachment');
        if (attachment === null) return;
        natives.addAttachment(number, attachment.name,
            values.length === 2 ? nameOf(values[0], 'addAttachment') : attachment.name);
    },
    addCounter(counter) {
        const found = referenceOf(counter, 'counter', 'addCounter(counter)', 'loadCounter');
        if (found !== null) natives.addCounter(number, found.name);
    },
    addTimeSeries(series) {
        const found = referenceOf(series, 'series', 'addTimeSeries(timeSeries)', 'loadTimeSeries');
        if (found !== null) natives.addTimeSeries(number, found.name, found.from, found.to);
    },
});
const loader = collection => (...values) => {
    const call = `loadTo${collection}(obj)`;
    if (values.length !== 1) wrong(`${call} must be called with exactly 1 parameter`);
    const [object] = values;
    if (object === null || typeof object !== 'object' || Array.isArray(object))
        wrong(`${call} argument must be an object`);
    return loaded(natives.loadTo(collection, object));
};
const globals = Object.freeze({
    loadTo: (collection, ...values) => loader(nameOf(collection, 'loadTo'))(...values),
    loadAttachment: name => hasAttachment(name) ? reference('attachment', name, {}) : null,
    hasAttachment,
    getAttachments: () => listed('@attachments'),
    loadCounter: name => hasCounter(name) ? reference('counter', name, {}) : null,
    hasCounter,
    getCounters: () => listed('@counters'),
    loadTimeSeries: (name, from, to) => {
        const range = { from: moment(from, 'loadTimeSeries'), to: moment(to, 'loadTimeSeries') };
        return hasTimeSeries(name) ? reference('series', name, range) : null;
    },
    hasTimeSeries,
    getTimeSeries: () => listed('@timeseries'),
});
const transformation = script => Object.freeze({
    run: document => {
        current = document;
        script.call(document, undefined);
        current = undefined;
    },
    call: (number, ...values) => {
        const behavior = script.call(undefined, number);
        return typeof behavior === 'function' ? [behavior(...values)] : undefined;
    },
});
