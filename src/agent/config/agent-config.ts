import { hostname } from 'node:os';
import { parse as parseYaml, parseDocument as parseYamlDocument } from 'yaml';
import { z } from 'zod';
import { SeineError } from '../../base/errors/seine-error.ts';
import { type Cidr, isIp, parseIp, readCidr } from '../../base/net/ip.ts';
import { deniedChoices, liveConnectionsChoices, policyModes, unencryptedPeersChoices } from '../../dataplane/compile/environment.ts';
import { MESH_PEERS_MAX, parseMeshInterval } from '../../operations/mesh/mesh-settings.ts';
import { parseTraceInterval, tracePeriod } from '../../operations/trace/trace-interval.ts';
import { flowLogSchema, ipfixSchema, otlpSchema } from './flow-log-config.ts';
import { absolutePath, size } from './value-schemas.ts';

/** Interface name as the kernel accepts it: it becomes part of nftables rules and of OVSDB. */
const interfaceName = z
  .string()
  .regex(/^[A-Za-z0-9][A-Za-z0-9_.-]{0,14}$/, 'is not an interface name (1 to 15 letters, digits, "_", "." or "-")');
/** The kernel's limit is 108 bytes, with the NUL at the end (unix(7)). */
const socketPath = absolutePath.refine((path) => Buffer.byteLength(path) <= 107, 'is longer than 107 bytes, which no socket can be');
const cidr = z.string().transform((text, context): Cidr => {
  const refuse = (message: string): never => {
    context.addIssue({ code: 'custom', message });
    return z.NEVER;
  };
  try {
    const { cidr: read, fault } = readCidr(text);
    return fault === undefined ? read : refuse(fault);
  } catch {
    return refuse(`${JSON.stringify(text)} is not a CIDR`);
  }
});
const cidrOf = (family: 'ipv4' | 'ipv6') =>
  cidr.refine((value) => value.family === family, `is not an ${family === 'ipv4' ? 'IPv4' : 'IPv6'} CIDR`);

/** Refuses a value that Antrea supports and Seine does not yet by its name, so that the user does not assume it is in force. */
const later = <const Now extends readonly [string, ...string[]]>(now: Now, coming: readonly string[]) =>
  z.string().transform((value, context): Now[number] => {
    if (now.includes(value)) return value as Now[number];
    const why = coming.includes(value) ? 'is not supported yet' : 'is unknown';
    context.addIssue({ code: 'custom', message: `${JSON.stringify(value)} ${why}; supported: ${now.join(', ')}` });
    return z.NEVER;
  });

const address = z.string().refine((text) => {
  const colon = text.lastIndexOf(':');
  const port = Number(text.slice(colon + 1));
  return (
    text === '' ||
    (colon > 0 && isIp(text.slice(0, colon).replace(/^\[|\]$/g, '')) && Number.isInteger(port) && port >= 0 && port <= 65_535)
  );
}, 'is not ADDRESS:PORT or empty');

/** `namespace/name`, or a cluster address of the Service. */
const serviceReference = z.string().transform((text, context): string => {
  if (isIp(text)) return parseIp(text).text;
  if (/^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?\/[a-z]([-a-z0-9]{0,61}[a-z0-9])?$/.test(text)) return text;
  context.addIssue({ code: 'custom', message: `${JSON.stringify(text)} is neither NAMESPACE/NAME nor an address of a Service` });
  return z.NEVER;
});

/** Settings of Services; names and meaning are those of Antrea's `antreaProxy`, where it has them. */
const proxySchema = z.strictObject({
  /** Default: true, unless a kube-proxy is found on the node. */
  proxyAll: z.boolean().optional(),
  /** Empty: all addresses of the node. `primary`: those of the Node object. */
  nodePortAddresses: z.array(z.literal('primary').or(cidr)).default([]),
  skipServices: z.array(serviceReference).max(1_000).default([]),
  proxyLoadBalancerIPs: z.boolean().default(true),
  /** Value of the label `service.kubernetes.io/service-proxy-name` of the Services to serve; empty: those without it. */
  serviceProxyName: z
    .string()
    .regex(/^[A-Za-z0-9]?([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$/, 'is not a valid label value')
    .default(''),
  /** `spec.externalIPs` outside these are refused. */
  externalIPRanges: z.array(cidr).default([]),
  /** True if buckets of groups translate, where they can; otherwise each endpoint has a flow that does. */
  bucketTranslation: z.boolean().default(true),
  disableServiceHealthCheckServer: z.boolean().default(false),
  /** kube-proxy's health address, which clouds' load balancers query; empty: disabled. */
  healthzBindAddress: address.default('[::]:10256'),
  /** True if TCP connections to a removed endpoint are deleted like those of UDP; otherwise they continue. */
  forgetTCPConnections: z.boolean().default(false),
});

/** Settings of `trafficEncapMode: hybrid`. */
const hybridSchema = z.strictObject({
  /** Peers with a transport address in one of these are reached without a tunnel although a router is between. */
  directCIDRs: z.array(cidr).max(1_000).default([]),
  /** True if a path without a tunnel must have answered an echo before pods use it. */
  verifyDirect: z.boolean().default(true),
});

const statusSchema = z.strictObject({ reportPoolExhausted: z.boolean().default(true) });

const policySchema = z.strictObject({
  /** The ConfigMap `seine-live` takes precedence over it, and the annotation `seine.dev/policy-mode` of the Node over both. */
  mode: z.enum(policyModes).default('enforce'),
  /**
   * Answer to pods whose connection is denied: none, or a refusal. The ConfigMap `seine-live` takes precedence over it, the annotation
   * `seine.dev/denied` of the Node over both, and that of a Namespace or a ClusterNetworkPolicy over all.
   */
  denied: z.enum(deniedChoices).default('drop'),
  /** Treatment of a pod for which it is unknown whether a policy selects it. */
  whenUnknown: z.enum(['closed', 'refuse', 'open']).default('closed'),
  /** Treatment of pods whose labels are not known, by rules of cluster policies that deny or pass pods by labels. */
  unknownPeers: z.enum(['closed', 'open']).default('closed'),
  /** Pods for which denied connections are logged; `annotated`: those with `seine.dev/log`, or in a namespace with it. */
  logDenied: z.enum(['off', 'annotated', 'all']).default('annotated'),
  /** Treatment of admitted connections that policies deny now. */
  liveConnections: z.enum(liveConnectionsChoices).default('cut'),
  /** Maximum number of new connections per second to Services, for one pod whose egress is policed. */
  serviceOpenings: z.int().min(1).max(1_000_000).default(2_000),
  /** Number of pods of the cluster above which the agent warns that it watches them all; it continues. */
  directWatchPods: z.int().min(1).default(20_000),
  /** True if the counters of each rule are exported as a metric; its labels name policies. */
  ruleMetrics: z.boolean().default(false),
});

/** Settings of encryption, in force with `trafficEncryptionMode: wireGuard`. */
const wireGuardSchema = z.strictObject({
  /** UDP port, the same on all nodes. */
  port: z.int().min(1).max(65_535).default(51_820),
  /** Packets to and from peers without a key: dropped, or sent as without encryption, for the time of a roll-out. */
  unencryptedPeers: z.enum(unencryptedPeersChoices).default('drop'),
  /** Folder with the sockets of WireGuard processes, for kernels without WireGuard. */
  socketFolder: absolutePath.default('/var/run/wireguard'),
});

/** Settings of the history on disk. */
const historySchema = z.strictObject({
  /** Maximum size of all files below `stateDir`/history; 0: nothing is recorded. */
  size: size.default(32 * 2 ** 20),
});

/** Duration as a number with `s` or `m`, or 0. Output: milliseconds. */
const interval = z
  .union([z.literal(0), z.string().regex(tracePeriod, 'is neither 0 nor a time such as 10s')])
  .transform((value) => parseTraceInterval(String(value)) ?? 0);

/** Settings of traces. */
const traceSchema = z.strictObject({
  /** Shortest interval between two random connections for which the agent compares flows; 0: never. */
  background: interval.prefault('10s'),
});

/** Duration in milliseconds: `10s`, `500ms`, `1m`, or 0. */
const meshInterval = z.union([z.int(), z.string()]).transform((value, context): number => {
  const parsed = parseMeshInterval(String(value));
  if (typeof parsed === 'number') return parsed;
  context.addIssue({ code: 'custom', message: parsed });
  return z.NEVER;
});

/** Echoes to other nodes. */
const meshSchema = z.strictObject({
  /** Interval of echoes to each observed node; 0: none are sent. */
  interval: meshInterval.default(10_000),
  /** Number of nodes that are observed all the time; 0: none are sent. */
  peers: z.int().min(0).max(MESH_PEERS_MAX).default(16),
});

const schema = z
  .strictObject({
    nodeName: z
      .string()
      .regex(/^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$/, 'is not a node name (RFC 1123 subdomain)')
      .optional(),
    kubeconfig: absolutePath.optional(),
    /** Address of the API server while its Service is not served yet: by this agent itself, without kube-proxy. */
    kubeAPIServerOverride: z.url({ protocol: /^https?$/, error: 'is not an https:// or http:// URL' }).optional(),
    ovsBridge: interfaceName.default('br-int'),
    hostGateway: interfaceName.default('antrea-gw0'),
    tunnelInterface: interfaceName.default('antrea-tun0'),
    trafficEncapMode: later(['encap', 'noEncap', 'hybrid'], ['networkPolicyOnly']).default('encap'),
    /** `none`: the network between the nodes routes pods' networks, and nodes get no routes to peers. */
    directRoutes: z.enum(['auto', 'none']).default('auto'),
    hybrid: hybridSchema.prefault({}),
    trafficEncryptionMode: later(['none', 'wireGuard'], ['ipsec']).default('none'),
    wireGuard: wireGuardSchema.prefault({}),
    tunnelType: later(['geneve', 'vxlan', 'gre'], ['stt']).default('geneve'),
    /** 0: the default of the tunnel type. */
    tunnelPort: z.int().min(0).max(65_535).default(0),
    /** Checksum of the outer UDP or GRE header, for networks that do not check their payload. */
    tunnelCsum: z.boolean().default(false),
    /** True if pods compute checksums themselves; for data paths that do not. */
    disableTXChecksumOffload: z.boolean().default(false),
    /** 0: that of the transport interface, less the overhead of the tunnel. */
    defaultMTU: z
      .int()
      .min(0)
      .max(65_535)
      .refine((mtu) => mtu === 0 || mtu >= 1280, 'is below 1280, the least that IPv6 allows')
      .default(0),
    noSNAT: z.boolean().default(false),
    proxy: proxySchema.prefault({}),
    serviceCIDR: cidrOf('ipv4').optional(),
    serviceCIDRv6: cidrOf('ipv6').optional(),
    transportInterface: interfaceName.optional(),
    transportInterfaceCIDRs: z.array(cidr).default([]),
    cniSocket: socketPath.default('/run/seine/cni.sock'),
    /** Folders of the runtime for CNI plugins and their configuration, as the agent sees them. */
    cniBinDir: absolutePath.default('/opt/cni/bin'),
    cniConfDir: absolutePath.default('/etc/cni/net.d'),
    apiSocket: socketPath.default('/run/seine/agent.sock'),
    stateDir: absolutePath.default('/var/lib/seine'),
    ovsRunDir: absolutePath.default('/run/openvswitch'),
    ovsDatapathType: later(['system', 'netdev'], []).default('system'),
    metricsAddress: address.default('127.0.0.1:10351'),
    /** Address of `/metrics` over TLS, for callers that the API server authenticates and RBAC authorizes; empty: disabled. */
    metricsTLSAddress: address.default(''),
    /** PEM. Without them the agent creates a self-signed certificate. */
    metricsTLSCertFile: absolutePath.optional(),
    metricsTLSKeyFile: absolutePath.optional(),
    hostFirewall: z.enum(['own', 'manage']).default('own'),
    /** `check`: required kernel settings are not written, only reported. */
    hostSettings: z.enum(['manage', 'check']).default('manage'),
    /** True if names, addresses and routes inside pods are restored; otherwise differences are only reported. */
    repairPods: z.boolean().default(false),
    /**
     * Interface of a new pod: `standing`: one over a pre-plugged port, if one is free; `auto`: that, unless another plugin applies the
     * pod's bandwidth limits; `veth`.
     */
    podInterface: z.enum(['auto', 'standing', 'veth']).default('auto'),
    /** Answer to STATUS of the CNI plugin. */
    status: statusSchema.prefault({}),
    policy: policySchema.prefault({}),
    history: historySchema.prefault({}),
    mesh: meshSchema.prefault({}),
    flowLog: flowLogSchema.prefault({}),
    trace: traceSchema.prefault({}),
    logLevel: z.enum(['error', 'warn', 'info', 'debug']).default('info'),
  })
  .refine((config) => (config.metricsTLSCertFile === undefined) === (config.metricsTLSKeyFile === undefined), {
    path: ['metricsTLSKeyFile'],
    error: 'must be set together with metricsTLSCertFile',
  })
  .refine(({ trafficEncapMode, hybrid }) => trafficEncapMode === 'hybrid' || hybrid.directCIDRs.length === 0, {
    path: ['hybrid', 'directCIDRs'],
    error: 'has no effect without trafficEncapMode: hybrid',
  })
  .refine(({ trafficEncapMode, directRoutes }) => trafficEncapMode !== 'encap' || directRoutes === 'auto', {
    path: ['directRoutes'],
    error: 'has no effect with trafficEncapMode: encap, in which no peer is reached without a tunnel',
  });

/** Configuration of an agent; keys and their meaning are Antrea's where Antrea has them. */
export type AgentConfig = Omit<z.output<typeof schema>, 'nodeName'> & { readonly nodeName: string };

/** Returns all keys, those of `proxy`, `hybrid`, `status`, `policy`, `wireGuard`, `history`, `flowLog` and `trace` with a dot. */
export function configKeys(): readonly string[] {
  const inner = {
    proxy: proxySchema,
    hybrid: hybridSchema,
    status: statusSchema,
    policy: policySchema,
    wireGuard: wireGuardSchema,
    history: historySchema,
    mesh: meshSchema,
    flowLog: flowLogSchema,
    'flowLog.otlp': otlpSchema,
    'flowLog.ipfix': ipfixSchema,
    trace: traceSchema,
  };
  const parts = Object.entries(inner).flatMap(([name, { shape }]) => Object.keys(shape).map((key) => `${name}.${key}`));
  return [...Object.keys(schema.shape), ...parts].filter((key) => !Object.hasOwn(inner, key));
}

/** Returns the JSON Schema of the file, as far as it can be expressed: conditions on computed values are left out. */
export function settingsSchema(): z.core.JSONSchema.BaseSchema {
  return z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' });
}

/**
 * Reads a configuration in which every key must be known.
 *
 * @param text YAML; empty means all defaults
 * @throws SeineError `INVALID_INPUT` naming every invalid field with its path and the reason
 */
export function parseConfig(text: string, environment: Variables): AgentConfig {
  const { config, unknown } = acceptConfig(text, environment);
  if (unknown.length > 0) throw invalid(unknown.map((key) => `unknown field ${JSON.stringify(key)}`));
  return config;
}

type Variables = Readonly<Record<string, string | undefined>>;

/**
 * Like `parseConfig`, but ignores keys that this release does not know: the file may be that of a newer release after a downgrade, and a
 * restart must not disconnect the node.
 *
 * @returns the paths of the unknown keys, e.g. `proxy.fastPath`
 */
export function acceptConfig(text: string, environment: Variables): { readonly config: AgentConfig; readonly unknown: readonly string[] } {
  const document = parseDocument(text) ?? {};
  // A file is read once: functions compiled for it would cost more than they save.
  const parse = (value: unknown) => schema.safeParse(value, { jitless: true });
  const first = parse(document);
  const unknown = first.success ? [] : first.error.issues.flatMap(unknownKeys);
  const result = unknown.length === 0 ? first : parse(unknown.reduce(without, document));
  if (!result.success) throw invalid([...unknown.map(unknownField), ...result.error.issues.map(describe)]);
  const { nodeName = environment['NODE_NAME'] ?? hostname().toLowerCase(), ...rest } = result.data;
  return { config: { nodeName, ...rest }, unknown: unknown.map((path) => path.join('.')) };
}

/** Returns the agent's state folder according to this configuration, even if it is otherwise invalid. */
export function stateDirOf(text: string): string {
  const { stateDir } = schema.shape;
  return stateDir.safeParse(parseYamlDocument(text).get('stateDir')).data ?? stateDir.parse(undefined);
}

type KeyPath = readonly PropertyKey[];

function unknownKeys(issue: z.core.$ZodIssue): readonly KeyPath[] {
  return issue.code === 'unrecognized_keys' ? issue.keys.map((key) => [...issue.path, key]) : [];
}

function without(value: unknown, [key, ...inside]: KeyPath): unknown {
  if (typeof value !== 'object' || value === null) return value;
  const kept = Object.entries(value).filter(([name]) => inside.length > 0 || name !== key);
  return Object.fromEntries(kept.map(([name, inner]) => [name, name === key ? without(inner, inside) : inner]));
}

function unknownField(path: KeyPath): string {
  return `unknown field ${JSON.stringify(path.join('.'))}`;
}

function invalid(faults: readonly string[]): SeineError {
  return new SeineError('INVALID_INPUT', `configuration: ${faults.join('; ')}`);
}

function parseDocument(text: string): unknown {
  try {
    // A warning about readable text is no reason for the library to print bytes of the file on standard error.
    return parseYaml(text, { maxAliasCount: 0, logLevel: 'error' });
  } catch (cause) {
    throw new SeineError(
      'INVALID_INPUT',
      `configuration: ${cause instanceof Error ? (cause.message.split('\n', 1)[0] ?? '') : 'no YAML'}`,
      { cause },
    );
  }
}

function describe(issue: z.core.$ZodIssue): string {
  return `${issue.path.join('.') || 'the document'}: ${issue.message}`;
}
