interface ApiPath {
  readonly parameters?: readonly string[];
  readonly does: string;
}

/** Descriptions of the paths of the agent's API, by method and path, for the reference page. */
export const apiPaths: Readonly<Record<string, ApiPath>> = {
  'GET /livez': { does: '200 while the event loop runs' },
  'GET /readyz': { does: '200 if pods are served, else 503; `state` (`ready`, `starting`, `impaired`) and `reason`' },
  'GET /metrics': { does: '[metrics](metrics.md) in the text format of Prometheus' },
  'GET /readyz/rollout': {
    does: 'like `/readyz`; also 503 until every source has synced since the start and the configuration file is in force',
  },
  'GET /v1/status': { does: 'readiness, problems, periodic checks, versions, addresses, sources, entries' },
  'GET /v1/pods': { parameters: ['name'], does: 'pods of this node' },
  'GET /v1/nodes': { parameters: ['name'], does: 'this node and its peers' },
  'GET /v1/services': { parameters: ['name'], does: 'Services and their endpoints as this node serves them' },
  'GET /v1/flows': { parameters: ['table', 'owner'], does: 'flows of the bridge with owner, state and counters' },
  'GET /v1/groups': { parameters: ['name', 'owner'], does: 'groups of the bridge' },
  'GET /v1/meters': { parameters: ['name', 'owner'], does: 'meters of the bridge' },
  'GET /v1/ports': { parameters: ['name', 'owner'], does: 'ports of the bridge' },
  'GET /v1/routes': { parameters: ['name', 'owner'], does: 'routes, rules, addresses and neighbours of the node that belong to Seine' },
  'GET /v1/explain/service': {
    parameters: ['name', 'from'],
    does: 'endpoints that a client gets, with reasons; `from` is a pod, `node` or `external`',
  },
  'GET /v1/explain/pod': { parameters: ['name'], does: 'network, history and problems of a pod' },
  'GET /v1/flow-log': {
    parameters: ['last', 'since', 'follow', 'namespace', 'pod', 'ip', 'port', 'service', 'verdict', 'event', 'protocol'],
    does: 'records of connections as lines of JSON, before and after them what was not recorded; `namespace`, `pod`, `ip` and `port` also with `from-` and `to-`',
  },
  'GET /v1/flow-log/summary': { parameters: ['seconds'], does: 'connections by workloads, Service, port, verdict and rule' },
  'GET /v1/open-connections': {
    does: 'admitted connections that are open, idle ones included, by their ends; on the userspace data path only that they are not listed',
  },
  'GET /v1/drops': { does: 'packets that ended on the bridge, by reason' },
  'GET /v1/probe': { parameters: ['number', 'peer'], does: 'end of a probe of another node on this one; waits for it for up to a second' },
  'GET /v1/trace': {
    parameters: ['from', 'to', 'port', 'family', 'source-port', 'established'],
    does: 'path of a packet through this node, hop by hop, by the installed flows and by those that the agent wants',
  },
  'GET /v1/policy/pod': { parameters: ['name'], does: 'policies that isolate a pod, by direction' },
  'GET /v1/policy/explain': { parameters: ['from', 'to', 'port'], does: 'verdict on a connection, with the rules that decide' },
  'GET /v1/policy/policy': { parameters: ['name'], does: 'one policy as this node applies it' },
  'GET /v1/policy/policies': { does: 'policies that isolate pods of this node' },
  'GET /v1/policy/counters': { does: 'packets and bytes by rule' },
  'GET /v1/policy/evidence': { does: 'policies, pods and flows of the bridge: input of `seinectl policy verify`' },
  'GET /v1/objects': { does: 'Services, EndpointSlices and live settings as the API server has them: part of a support bundle' },
  'GET /v1/policy/suspensions': { does: 'suspensions in force' },
  'GET /v1/policy/log': { does: 'pods whose denied packets are logged' },
  'GET /v1/diff': { does: 'entries that differ from the desired state' },
  'GET /v1/owners': { does: 'owner of each flow cookie' },
  'GET /v1/inputs': { does: 'inputs of the flow compilers' },
  'GET /v1/config': { does: 'configuration in force, defaults included' },
  'GET /v1/leases': { does: 'allocated pod addresses' },
  'GET /v1/logs': { does: 'last 5,000 log lines' },
  'GET /v1/mesh': { does: 'nodes that this one observes with echoes, with state and round trip' },
  'GET /v1/timeline': {
    parameters: ['from', 'until', 'subject', 'follow'],
    does: 'recorded events, a line of JSON each; times in milliseconds since 1970',
  },
  'GET /v1/history/inputs': {
    parameters: ['at'],
    does: 'recorded lines from which the inputs of compilers at a time follow (milliseconds since 1970)',
  },
  'GET /v1/log-level': { does: 'log level, and how long it applies' },
  'POST /v1/log-level': { parameters: ['level', 'seconds'], does: 'sets the log level; without `seconds` until the agent ends' },
  'POST /v1/policy/log': {
    parameters: ['seconds', 'namespace', 'pod'],
    does: 'logs denied packets of all pods, a namespace or a pod; without `seconds` ends all such requests',
  },
  'POST /v1/policy/would-deny': { parameters: ['seconds'], does: 'pairs that policies deny, or would deny, in this time; changes nothing' },
  'POST /v1/connect': {
    parameters: ['from', 'to', 'port', 'family'],
    does: 'opens a TCP connection, or sends an echo, from a socket of a pod, and returns the outcome',
  },
  'POST /v1/probe': {
    parameters: ['from', 'to', 'port', 'family', 'source-port', 'size'],
    does: 'sends a probe in the name of a pod, which ends at the agent, and returns its end on this node',
  },
  'POST /v1/check': { parameters: ['peer', 'peers', 'seconds'], does: 'findings of a check with test packets; changes nothing' },
  'POST /v1/pause': { parameters: ['seconds'], does: 'stops the repair of foreign changes, for a day at most' },
  'POST /v1/resume': { does: 'ends the pause' },
  'POST /v1/wireguard/rotate': { does: 'announces a new WireGuard key of this node' },
  'POST /v1/policy/suspend': {
    parameters: ['what', 'name', 'seconds', 'reason'],
    does: 'suspends policies for a `pod`, a `namespace` or the `node`, for a day at most',
  },
  'POST /v1/policy/resume': { parameters: ['what', 'name'], does: 'ends a suspension' },
};
