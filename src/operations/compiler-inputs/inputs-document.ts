import { z } from 'zod';
import { seineVersion } from '../../api/version.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import { type Cidr, type Ip, parseCidr, parseIp } from '../../base/net/ip.ts';
import { type Mac, parseMac } from '../../base/net/mac.ts';
import type { DirectPath } from '../../dataplane/compile/compile-direct.ts';
import type { ClusterClassNumbers, SubjectIntent } from '../../dataplane/compile/compile-entry.ts';
import type { PeerIntent } from '../../dataplane/compile/compile-peer.ts';
import type { PodIntent, RateLimit } from '../../dataplane/compile/compile-pod.ts';
import {
  deniedChoices,
  liveConnectionsChoices,
  type NodeEnvironment,
  type NodeWireGuard,
  policyModes,
  unencryptedPeersChoices,
} from '../../dataplane/compile/environment.ts';
import { generation, type Owner } from '../../dataplane/pipeline/cookie.ts';
import type { BridgeKey } from '../../dataplane/targets/bridge/bridge-entry.ts';
import type { ServiceAddress, ServiceEndpoint, ServiceIntent } from '../../services/compile/service-intent.ts';
import { rangeSetOf } from '../../services/compile/source-ranges.ts';
import type { CommonInputs, Dispute, NodeInputs, PodInput, ServiceInput, SubjectInput } from './node-inputs.ts';

/** Incremented when an older reader would misread the format. */
const inputsFormat = 1;

/** Time at which the inputs were taken, in revisions of the bridge's desired state. */
interface Taken {
  readonly node: string;
  readonly revision: number;
}

/** Inputs read from a file. */
export interface ReadInputs {
  readonly inputs: NodeInputs;
  readonly node: string;
  /** Version and generation of the pipeline of the agent that recorded them. */
  readonly seine: string;
  readonly generation: number;
  /** False if the bridge's desired state changed while they were recorded. */
  readonly steady: boolean;
}

const parsed = <T>(parse: (text: string) => T) =>
  z.string().transform((text, context): T => {
    try {
      return parse(text);
    } catch (thrown) {
      context.addIssue({ code: 'custom', message: thrown instanceof SeineError ? thrown.message : String(thrown) });
      return z.NEVER;
    }
  });

const ip: z.ZodType<Ip> = parsed(parseIp);
const cidr: z.ZodType<Cidr> = parsed(parseCidr);
const mac: z.ZodType<Mac> = parsed(parseMac);
const owner: z.ZodType<Owner> = z.string().transform((text) => text as Owner);
const family = z.enum(['ipv4', 'ipv6']);
const ofPort = z.int().min(1).max(0xffff);
const port = z.int().min(1).max(0xffff);
const policy = z.enum(['Cluster', 'Local']);
const transport = z.enum(['tcp', 'udp', 'sctp']);

/** Names every field of a type, including optional ones: a field that is added for a compiler must not be forgotten here. */
type Shape<T> = Readonly<Record<keyof T, z.ZodType>>;

const environment: z.ZodType<NodeEnvironment> = z.strictObject({
  gateway: z.strictObject({
    name: z.string().max(15),
    ofPort,
    mac,
    mtu: z.int().min(1).max(65_535),
    addresses: z.array(ip),
  } satisfies Shape<NodeEnvironment['gateway']>),
  tunnel: z.strictObject({
    ofPort,
    type: z.enum(['geneve', 'vxlan', 'gre']),
    port: z.int().min(0).max(0xffff),
  } satisfies Shape<NodeEnvironment['tunnel']>),
  podCidrs: z.array(cidr),
  formerPodCidrs: z.array(cidr).exactOptional(),
  transport: z.array(ip),
  serviceCidrs: z.array(cidr),
  localAddresses: z.array(ip).exactOptional(),
  policyMode: z.enum(policyModes).exactOptional(),
  liveConnections: z.enum(liveConnectionsChoices).exactOptional(),
  blindToSctp: z.literal(true).exactOptional(),
  directPackets: z.literal(true).exactOptional(),
  denied: z.enum(deniedChoices).exactOptional(),
  wireGuard: z
    .strictObject({
      device: z.string().max(15),
      port: z.int().min(1).max(0xffff),
      unencryptedPeers: z.enum(unencryptedPeersChoices),
      isEnding: z.literal(true).exactOptional(),
    } satisfies Shape<NodeWireGuard>)
    .exactOptional(),
} satisfies Shape<NodeEnvironment>);
const proxy: z.ZodType<CommonInputs['proxy']> = z.strictObject({
  addresses: z.array(ip),
  gateway: z.array(ip),
} satisfies Shape<CommonInputs['proxy']>);
const directPath: z.ZodType<DirectPath> = z.strictObject({
  hop: z.strictObject({ via: ip.exactOptional(), dev: z.string().max(15) }).exactOptional(),
} satisfies Shape<DirectPath>);
const peer: z.ZodType<PeerIntent> = z.strictObject({
  name: z.string(),
  podCidrs: z.array(cidr),
  transport: z.array(ip),
  sharedTransport: z.array(ip).exactOptional(),
  direct: z.strictObject({ ipv4: directPath.exactOptional(), ipv6: directPath.exactOptional() }).exactOptional(),
  maySendDirectly: z.literal(true).exactOptional(),
  refusesTunnel: z.literal(true).exactOptional(),
} satisfies Shape<PeerIntent>);
const rateLimit = z.strictObject({ rate: z.number(), burst: z.number() } satisfies Shape<RateLimit>);
const podIntent: z.ZodType<PodIntent> = z.strictObject({
  ofPort,
  mac,
  addresses: z.array(ip),
  egress: rateLimit.exactOptional(),
  ingress: rateLimit.exactOptional(),
} satisfies Shape<PodIntent>);
const endpoint: z.ZodType<ServiceEndpoint> = z.strictObject({ ip, port } satisfies Shape<ServiceEndpoint>);
const address: z.ZodType<ServiceAddress> = z.strictObject({
  kind: z.enum(['cluster', 'nodePort', 'external', 'loadBalancer']),
  ip,
  port,
} satisfies Shape<ServiceAddress>);
const intent: z.ZodType<ServiceIntent> = z.strictObject({
  name: z.string(),
  family,
  transport,
  port,
  addresses: z.array(address),
  internalPolicy: policy,
  externalPolicy: policy,
  affinitySeconds: z.int().min(1).exactOptional(),
  translation: z.enum(['bucket', 'endpoint']),
  sourceRanges: z.array(cidr),
  cluster: z.array(endpoint),
  local: z.array(endpoint),
  anyEndpoint: z.boolean(),
  objections: z.array(z.string()),
} satisfies Shape<ServiceIntent>);
/** Lists of source ranges that are written once for all ports of a Service. */
const ranges = z.strictObject({ name: z.string(), ranges: z.array(cidr) });
type SourceRangesInput = z.output<typeof ranges>;
const groups = z.record(z.string(), z.int().min(1).max(0xffff_ff00)).transform((groupIds) => new Map(Object.entries(groupIds)));
const service: z.ZodType<ServiceInput & { readonly sourceRanges?: string }> = z.strictObject({
  owner,
  intent,
  groups,
  /** Name of a list of an earlier line, in place of that of the intent. */
  sourceRanges: z.string().exactOptional(),
});
const pod: z.ZodType<PodInput> = z.strictObject({ owner, intent: podIntent });
const policyClass = z.literal('closed').or(z.int().min(0).max(2_047));
const clusterClasses: z.ZodType<ClusterClassNumbers> = z.strictObject({
  admin: z.int().min(1).max(2_047).exactOptional(),
  baseline: z.int().min(1).max(1_023).exactOptional(),
});
const subjectIntent: z.ZodType<SubjectIntent> = z.strictObject({
  ofPort,
  addresses: z.array(ip),
  ingress: policyClass.exactOptional(),
  egress: policyClass.exactOptional(),
  cluster: z.strictObject({ ingress: clusterClasses.exactOptional(), egress: clusterClasses.exactOptional() }).exactOptional(),
  openings: z.int().min(1).max(0xffff_ffff).exactOptional(),
} satisfies Shape<SubjectIntent>);
const subject: z.ZodType<SubjectInput> = z.strictObject({ owner, intent: subjectIntent });
const dispute: z.ZodType<Dispute> = z.strictObject({
  owner,
  key: z
    .string()
    .regex(/^(?:[0-9a-f]{2})+$/)
    .transform((hex) => Buffer.from(hex, 'hex').toString('latin1') as BridgeKey),
});

const line = z.discriminatedUnion('is', [
  z.object({
    is: z.literal('start'),
    format: z.literal(inputsFormat),
    seine: z.string().max(100),
    generation: z.int(),
    node: z.string().max(253),
    revision: z.int(),
    environment,
    proxy,
  }),
  z.object({ is: z.literal('peer'), of: peer }),
  z.object({ is: z.literal('pod'), of: pod }),
  z.object({ is: z.literal('subject'), of: subject }),
  z.object({ is: z.literal('source-ranges'), of: ranges }),
  z.object({ is: z.literal('service'), of: service }),
  z.object({ is: z.literal('dispute'), of: dispute }),
  z.object({ is: z.literal('end'), revision: z.int(), lines: z.int() }),
]);
export type InputLine = z.output<typeof line>;

export function writeStart({ node, revision }: Taken, { environment, proxy }: CommonInputs): string {
  return written({ is: 'start', format: inputsFormat, seine: seineVersion, generation, node, revision, environment, proxy });
}

export function writeInput(
  is: 'peer' | 'pod' | 'subject' | 'source-ranges' | 'service' | 'dispute',
  of: PeerIntent | PodInput | SubjectInput | SourceRangesInput | ServiceInput | Dispute,
): string {
  return written({ is, of: 'key' in of ? { ...of, key: Buffer.from(of.key, 'latin1').toString('hex') } : of });
}

/** A longer list of source ranges gets a line of its own. Readers before 0.23 know the short form only. */
const RANGES_INLINE = 16;

/** One line for each port of a Service, and one for each long list of source ranges before the first port that has it. */
export function* writeServices(inputs: Iterable<ServiceInput>): Generator<string> {
  const written = new Set<string>();
  for (const { owner: of, intent: whole, groups: groupIds } of inputs) {
    if (whole.sourceRanges.length <= RANGES_INLINE) {
      yield writeInput('service', { owner: of, intent: whole, groups: groupIds });
      continue;
    }
    const { owner: name } = rangeSetOf(whole.sourceRanges);
    if (!written.has(name)) yield writeInput('source-ranges', { name, ranges: [...whole.sourceRanges] });
    written.add(name);
    const named = { owner: of, intent: { ...whole, sourceRanges: [] }, groups: groupIds, sourceRanges: name };
    yield writeInput('service', named);
  }
}

/** @param lines number of lines, not counting this one and the first */
export function writeEnd(revision: number, lines: number): string {
  return written({ is: 'end', revision, lines });
}

/** Converts addresses and networks to text; other values are unchanged. */
function written(value: unknown): string {
  return JSON.stringify(value, (_, each: unknown) => {
    if (each instanceof Map) return Object.fromEntries(each);
    if (typeof each === 'object' && each !== null && 'text' in each && 'family' in each) return each.text;
    return each;
  });
}

/**
 * Reads the output of `writeStart`, `writeInput` and `writeEnd`, line by line.
 *
 * @throws SeineError `INVALID_INPUT` naming the first invalid line; also for a truncated text
 */
export function readInputs(text: string): ReadInputs {
  const lines = text.split('\n').filter((each) => each !== '');
  const [start, ...rest] = lines.map(readInputLine);
  const end = rest.pop();
  if (start?.is !== 'start') throw new SeineError('INVALID_INPUT', 'the inputs have no beginning');
  if (end?.is !== 'end' || end.lines !== rest.length) throw new SeineError('INVALID_INPUT', 'the inputs break off');
  const { environment, proxy, node, seine } = start;
  const peers = rest.flatMap((each) => (each.is === 'peer' ? [each.of] : []));
  const pods = rest.flatMap((each) => (each.is === 'pod' ? [each.of] : []));
  const subjects = rest.flatMap((each) => (each.is === 'subject' ? [each.of] : []));
  const services = servicesIn(rest);
  const disputes = rest.flatMap((each) => (each.is === 'dispute' ? [each.of] : []));
  return {
    inputs: { environment, proxy, peers, pods, subjects, services, disputes },
    node,
    seine,
    generation: start.generation,
    steady: start.revision === end.revision,
  };
}

/** Ports of a Service share its list of source ranges, like in the agent. */
function servicesIn(lines: readonly InputLine[]): readonly ServiceInput[] {
  const lists = new Map(lines.flatMap((each) => (each.is === 'source-ranges' ? [[each.of.name, each.of.ranges] as const] : [])));
  return lines.flatMap((each) => {
    if (each.is !== 'service') return [];
    const { sourceRanges: name, ...input } = each.of;
    if (name === undefined) return [input];
    const list = lists.get(name);
    if (list === undefined) throw new SeineError('INVALID_INPUT', `${input.owner}: the inputs have no source ranges ${name}`);
    return [{ ...input, intent: { ...input.intent, sourceRanges: list } }];
  });
}

/** Reads one line of the document. @param at its position, for messages. @throws SeineError `INVALID_INPUT` */
export function readInputLine(text: string, at: number): InputLine {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw new SeineError('INVALID_INPUT', `line ${at + 1} of the inputs is not JSON`, { cause });
  }
  const result = line.safeParse(value);
  if (result.success) return result.data;
  const [first] = result.error.issues;
  throw new SeineError(
    'INVALID_INPUT',
    `line ${at + 1} of the inputs: ${first?.path.join('.') ?? ''}: ${first?.message ?? 'cannot be parsed'}`,
  );
}
