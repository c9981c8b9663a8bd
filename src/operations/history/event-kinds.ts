/**
 * Kinds of events, each with its text. Names are an interface between releases: they are extended, and never reused. A text is made when an
 * event is read, from data that another release may have written.
 */
const eventKinds = {
  'agent.started': ({ version, pid }: { version: string; pid: number }) => `the agent ${version} started, process ${pid}`,
  'agent.stopped': () => 'the agent stops',
  'agent.absent': ({ seconds }: { seconds: number }) => `no agent recorded events for ${seconds} s before this`,
  'agent.ready': () => 'the agent is ready for pods',
  'agent.notReady': ({ reason }: Reason) => `the agent is not ready: ${reason}`,
  'agent.synced': () => 'all sources are synced; unowned entries are removed from now on',
  'history.lost': ({ events }: { events: number }) => `${events} events were not recorded: there were more than can be stored`,
  'history.resumed': ({ seconds, cause }: Cause & { seconds: number }) => `history was not recorded for ${seconds} s: ${cause}`,

  'ovsdb.synced': () => 'connected to OVSDB, copy complete',
  'ovsdb.failed': ({ cause }: Cause) => `the connection to OVSDB failed: ${cause}`,
  'bridge.connected': () => 'connected to the bridge',
  'bridge.failed': ({ cause }: Cause) => `the connection to the bridge failed: ${cause}`,
  'ovs.started': () => 'ovs-vswitchd started: its bridge is filled again',
  'bridge.complete': () => 'the bridge has all flows and groups again',

  'cni.add': (call: CniCall) => `ADD answered after ${ms(call.tookMs)}${stages(call)}`,
  'cni.del': (call: CniCall) => `DEL answered after ${ms(call.tookMs)}${stages(call)}`,
  'cni.check': (call: CniCall) => `CHECK answered after ${ms(call.tookMs)}`,
  'cni.gc': (call: CniCall) => `GC answered after ${ms(call.tookMs)}`,
  'cni.failed': ({ command, code, tookMs }: CniCall & { command: string; code: number }) =>
    `${command} failed with CNI error ${code} after ${ms(tookMs)}`,
  'pod.flows': ({ tookMs }: Took) => `OVS acknowledged the flows of the pod after ${ms(tookMs)}`,
  'pod.interface': ({ tookMs }: Took) => `the interface of the pod was created after ${ms(tookMs)}`,
  'pod.port': ({ tookMs }: Took) => `OVS opened the port of the pod after ${ms(tookMs)}`,
  'pod.announced': () => 'the addresses of the pod were announced to the network',

  'source.restored': ({ resource, objects }: CopiedObjects) => `${resource}: ${objects} objects restored from disk`,
  'source.synced': ({ resource, objects, tookMs }: CopiedObjects & Took) => `${resource}: synced, ${objects} objects after ${ms(tookMs)}`,
  'source.failed': ({ resource, cause }: OfResource & Cause) => `${resource}: the API server cannot be followed: ${cause}`,
  'source.recovered': ({ resource }: OfResource) => `${resource}: the API server is followed again`,
  'source.behind': ({ resource }: OfResource) => `${resource}: the API server has an older state than before`,
  'source.held': ({ resource, missing, known }: OfResource & { missing: number; known: number }) =>
    `${resource}: a list lacks ${missing} of ${known} objects; nothing is removed until a second list agrees`,
  'source.refuted': ({ resource }: OfResource) => `${resource}: a second list has all that the first one lacked`,
  'source.released': ({ resource, missing }: OfResource & { missing: number }) =>
    `${resource}: a second list agrees; ${missing} objects are removed`,
  'source.invalid': ({ resource, name, cause }: OfResource & Cause & { name: string }) => `${resource} ${name} is invalid: ${cause}`,
  'source.unreadable': ({ resource, cause }: OfResource & Cause) => `${resource}: invalid object from the API server: ${cause}`,
  'source.storage': ({ resource, cause }: OfResource & Cause) => `${resource}: the copy on disk failed: ${cause}`,
  'source.changed': ({ resource, added, changed, removed }: OfResource & { added: number; changed: number; removed: number }) =>
    `${resource}: a list has ${added} new, ${changed} changed and ${removed} removed objects`,

  'object.added': ({ resource, name, version }: ReceivedObject) => `received ${resource} ${name}, version ${version}`,
  'object.changed': ({ resource, name, version, fields }: ReceivedObject & { fields: readonly string[] }) =>
    `received ${resource} ${name}, version ${version}: ${list(fields)} changed`,
  'object.removed': ({ resource, name }: ReceivedObject) => `${resource} ${name} was removed`,
  'endpoint.added': ({ service, endpoints }: Endpoints) => `endpoints of ${service} added: ${list(endpoints)}`,
  'endpoint.removed': ({ service, endpoints }: Endpoints) => `endpoints of ${service} removed: ${list(endpoints)}`,

  'policy.isolated': ({ ingress, egress }: Isolation) => `policies: ingress ${by(ingress)}, egress ${by(egress)}`,
  'policy.free': () => 'policies: no policy isolates the pod',
  'policy.blocked': ({ reason }: Reason) => `policies: the pod is blocked: ${reason}`,
  'policy.suspendedPod': ({ reason }: Reason) => `policies: suspended for the pod ${reason}`,
  'policy.undecided': () => 'policies: the pod keeps the flows of the previous agent until more is known',
  'pod.attached': () => 'the pod has its network',
  'pod.detached': () => 'the network of the pod was removed',
  'policy.suspended': ({ message }: Sentence) => message,
  'policy.resumed': ({ message }: Sentence) => message,
  'policy.modeChanged': ({ message }: Sentence) => message,
  'policy.modeInvalid': ({ message }: Sentence) => message,
  'repair.paused': ({ message }: Sentence) => message,
  'repair.resumed': ({ message }: Sentence) => message,
  'firewall.dropsPods': ({ message }: Sentence) => message,
  'node.event': ({ message }: Sentence) => message,
  'denied.burst': ({ direction, peer, port, protocol, count, seconds, by: names }: DeniedBurst) =>
    `denied ${direction} ${direction === 'ingress' ? 'from' : 'to'} ${peer}${port === undefined ? '' : ` ${port}`}/${protocol}: ` +
    `${count} ${count === 1 ? 'packet' : 'packets'}${seconds > 0 ? ` in ${seconds} s` : ''}, ${by(names)}`,

  'drift.found': ({ part, entries }: Part & { entries: number }) => `${part}: another program changed ${entries} entries`,
  'drift.lost': ({ part, entries }: Part & { entries: number }) => `${part}: another program removed ${entries} entries`,
  'drift.repaired': ({ part, tookMs }: Part & Took) => `${part}: foreign change repaired after ${ms(tookMs)}`,
  'entries.refused': ({ part, owner, cause }: Part & Cause & { owner: string }) => `${part}: entries of ${owner} are refused: ${cause}`,
  'entries.accepted': ({ part, owner }: Part & { owner: string }) => `${part}: entries of ${owner} are accepted again`,
  'target.failing': ({ part, cause }: Part & Cause) => `${part}: changes fail and are repeated: ${cause}`,
  'target.recovered': ({ part }: Part) => `${part}: changes succeed again`,
  'problem.began': ({ problem, message }: Sentence & { problem: string }) => `problem ${problem}: ${message}`,
  'problem.ended': ({ problem, message, seconds }: Sentence & { problem: string; seconds: number }) =>
    `problem ${problem} ended after ${seconds} s: ${message}`,

  'mesh.lost': ({ peer, family }: EchoedPeer) => `${peer} does not answer over ${family}`,
  'mesh.slow': ({ peer, family, rttMs }: EchoedPeer & { rttMs: number }) => `${peer} answers slowly over ${family}: ${ms(rttMs)}`,
  'mesh.mtu': ({ peer, family, bytes }: EchoedPeer & { bytes: number }) =>
    `${peer} does not answer packets of ${bytes} bytes over ${family}`,
  'mesh.reached': ({ peer, family }: EchoedPeer) => `${peer} answers again over ${family}`,
} as const satisfies Readonly<Record<string, (data: never) => string>>;

export type HistoryKind = keyof typeof eventKinds;
export type EventData<K extends HistoryKind> = Parameters<(typeof eventKinds)[K]> extends [infer D] ? D : Readonly<Record<string, never>>;

interface Reason {
  readonly reason: string;
}
interface Cause {
  readonly cause: string;
}
interface Sentence {
  readonly message: string;
}
interface Took {
  readonly tookMs: number;
}
interface CniCall extends Took {
  /** Durations by name of the stage (ms). */
  readonly stages?: Readonly<Record<string, number>>;
}
interface OfResource {
  /** Kind of API object. */
  readonly resource: string;
}
interface CopiedObjects extends OfResource {
  readonly objects: number;
}
interface ReceivedObject extends OfResource {
  readonly name: string;
  readonly version: string;
}
interface Endpoints {
  readonly service: string;
  readonly endpoints: readonly string[];
}
interface Isolation {
  readonly ingress: readonly string[];
  readonly egress: readonly string[];
}
interface DeniedBurst {
  readonly direction: string;
  readonly peer: string;
  readonly port?: number;
  readonly protocol: string;
  readonly count: number;
  readonly seconds: number;
  readonly by: readonly string[];
}
interface Part {
  readonly part: string;
}
interface EchoedPeer {
  readonly peer: string;
  readonly family: string;
}

/** Returns the text of an event, also of one that this release does not know, or whose data it cannot read. */
export function eventText(kind: string, data: Readonly<Record<string, unknown>>): string {
  try {
    if (!Object.hasOwn(eventKinds, kind)) return `${kind} ${JSON.stringify(data)}`;
    return (eventKinds[kind as HistoryKind] as (data: Readonly<Record<string, unknown>>) => string)(data);
  } catch {
    return `${kind} ${JSON.stringify(data)}`;
  }
}

function ms(value: number): string {
  return value >= 10_000 ? `${Math.round(value / 100) / 10} s` : `${Math.round(value * 10) / 10} ms`;
}

function stages({ stages: of = {} }: CniCall): string {
  const each = Object.entries(of).map(([name, tookMs]) => `${name} ${ms(tookMs)}`);
  return each.length === 0 ? '' : `: ${each.join(', ')}`;
}

function list(names: readonly string[]): string {
  return names.length === 0 ? 'nothing' : names.join(', ');
}

function by(names: readonly string[]): string {
  return names.length === 0 ? 'by no policy' : `by ${names.join(', ')}`;
}
