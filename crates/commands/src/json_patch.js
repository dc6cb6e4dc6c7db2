// Changes `this` by the operations of RFC 6902 in `args.Operations`; `args.Id` is for messages.

const refuse = (name, message) => { throw Object.assign(new Error(message), { name }); };
const failed = () => refuse('CallRefused',
    `An error occurred while trying to apply json patch operation to document ${args.Id}.`);
if (id(this) === null)
    refuse('CallRefused', `Cannot apply json patch because the document ${args.Id} does not exist`);

const isHolder = value => typeof value === 'object' && value !== null;
const isIndex = name => /^(0|[1-9][0-9]*)$/.test(name);
const has = (holder, name) => Array.isArray(holder)
    ? isIndex(name) && Number(name) < holder.length
    : Object.hasOwn(holder, name);

// The object or array that a path leads into, and its last step.
const find = path => {
    if (typeof path !== 'string') failed();
    const names = (path.startsWith('/') ? path.slice(1) : path).split('/')
        .map(name => name.replaceAll('~1', '/').replaceAll('~0', '~'));
    const last = names.pop();
    let holder = this;
    for (const name of names) {
        if (!isHolder(holder) || !has(holder, name)) failed();
        holder = holder[name];
    }
    if (!isHolder(holder)) failed();
    return [holder, last];
};
const get = path => {
    const [holder, name] = find(path);
    if (!has(holder, name)) failed();
    return holder[name];
};
const add = (path, value) => {
    const [holder, name] = find(path);
    if (!Array.isArray(holder)) {
        holder[name] = value;
        return;
    }
    const index = name === '-' ? holder.length : isIndex(name) ? Number(name) : failed();
    if (index > holder.length) failed();
    holder.splice(index, 0, value);
};
const remove = path => {
    const [holder, name] = find(path);
    if (!has(holder, name)) failed();
    if (Array.isArray(holder)) holder.splice(Number(name), 1);
    else delete holder[name];
};
const replace = (path, value) => {
    const [holder, name] = find(path);
    if (!has(holder, name)) failed();
    holder[name] = value;
};
const copy = value => {
    if (Array.isArray(value)) return value.map(copy);
    if (!isHolder(value)) return value;
    return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, copy(one)]));
};
const equal = (a, b) => {
    if (!isHolder(a) || !isHolder(b)) return a === b;
    if (Array.isArray(a) !== Array.isArray(b)) return false;
    const names = Object.keys(a);
    return names.length === Object.keys(b).length
        && names.every(name => Object.hasOwn(b, name) && equal(a[name], b[name]));
};
const actions = {
    __proto__: null,
    add: ({ path, value }) => add(path, value ?? null),
    replace: ({ path, value }) => replace(path, value ?? null),
    remove: ({ path }) => remove(path),
    copy: ({ from, path }) => add(path, copy(get(from))),
    move: ({ from, path }) => {
        const value = get(from);
        remove(from);
        add(path, value);
    },
    test: ({ path, value }) => { if (!equal(get(path), value ?? null)) failed(); },
};
if (!Array.isArray(args.Operations)) failed();
for (const operation of args.Operations) {
    if (!isHolder(operation)) failed();
    const action = typeof operation.op === 'string' ? actions[operation.op.toLowerCase()] : undefined;
    if (!action) refuse('ValueRefused', `Unable to understand 'op' ${operation.op}`);
    action(operation);
}
