// What scripts of the administrators' console see: the members by which scripts for RavenDB reach a server, as far as
// this server has them. To set another one is an error, and so is calling it.
const { operate } = globalThis[Symbol.for('of consoles')];
// An operation has ended before its task is returned.
const done = result => Object.freeze({
    Result: result,
    IsCompleted: true,
    Wait: (...limits) => limits.length === 0 ? undefined : true,
});
const engine = () => Object.seal({
    get Tag() { return operate('tag'); },
    get CurrentTerm() { return operate('term'); },
    get CurrentLeader() {
        return operate('leads') ? Object.seal({ Running: true, get Term() { return operate('term'); } }) : null;
    },
});
const serverStore = () => Object.seal({
    get NodeTag() { return operate('tag'); },
    GetNodeHttpServerUrl: () => operate('url'),
    ServerShutdown: Object.freeze({}),
    ValidateFixedPort: false,
    EnsureNotPassiveAsync: (url, tag) => done(operate('bootstrap', tag)),
    AddNodeToClusterAsync: (url, tag, validates, isWatcher) =>
        done(operate('add', url, tag, isWatcher === true)),
    RemoveFromClusterAsync: tag => done(operate('remove', tag)),
    WaitForTopology: () => done(operate('waitForLeader')),
    Cluster: Object.seal({
        WaitForIndexNotification: index => done(operate('waitForIndex', index)),
    }),
    Engine: engine(),
    LicenseManager: Object.seal({
        LicenseStatus: Object.seal({ Type: 'None' }),
    }),
});
const server = () => Object.seal({
    get WebUrl() { return operate('url'); },
    ServerStore: serverStore(),
    Dispose: () => operate('stop'),
});
const database = name => Object.seal({ Name: name });
