import { hostname } from 'node:os';
import { parse as parseYaml, parseDocument as parseYamlDocument } from 'yaml';
import { z } from 'zod';
import { SeineError } from '../../base/errors/seine-error.ts';
import { type Cidr, isIp, parseIp, readCidr } from '../../base/net/ip.ts';
import { liveConnectionsChoices, policyModes } from '../../dataplane/compile/environment.ts';

/** An interface name as the kernel takes it: it ends up in rules of the packet filter and in the switch's database. */
const interfaceName = z
  .string()
  .regex(/^[A-Za-z0-9][A-Za-z0-9_.-]{0,14}$/, 'is no interface name (1 to 15 letters, digits, "_", "." or "-")');
const absolutePath = z.string().regex(/^\/[^\0]*$/, 'is no absolute path');
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

/** A value that Antrea knows and Seine does not do yet is refused by its name, so that it is not taken to be in force. */
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

/** What of Services the agent serves; names and meaning are those of Antrea's `antreaProxy`, where it has them. */
const proxySchema = z.strictObject({
  /** Left out: true, unless a kube-proxy is found on the node. */
  proxyAll: z.boolean().optional(),
  /** Empty: all addresses of the node. `primary`: those that the Node object has. */
  nodePortAddresses: z.array(z.literal('primary').or(cidr)).default([]),
  skipServices: z.array(serviceReference).max(1_000).default([]),
  proxyLoadBalancerIPs: z.boolean().default(true),
  /** Value of the label `service.kubernetes.io/service-proxy-name` of the Services that are ours; empty: those without it. */
  serviceProxyName: z
    .string()
    .regex(/^[A-Za-z0-9]?([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$/, 'is no value of a label')
    .default(''),
  /** `spec.externalIPs` outside these are refused. */
  externalIPRanges: z.array(cidr).default([]),
  /** Whether buckets of groups translate, where they can; otherwise each endpoint has a flow that does. */
  bucketTranslation: z.boolean().default(true),
  disableServiceHealthCheckServer: z.boolean().default(false),
  /** kube-proxy's health address, which clouds' load balancers ask; empty: nowhere. */
  healthzBindAddress: address.default('[::]:10256'),
  /** Whether TCP connections to an endpoint that is gone are forgotten as those of UDP are; otherwise they go on. */
  forgetTCPConnections: z.boolean().default(false),
});

const statusSchema = z.strictObject({ reportPoolExhausted: z.boolean().default(true) });

const policySchema = z.strictObject({
  /** The ConfigMap `seine-live` stands above it, and the annotation `seine.dev/policy-mode` of the Node above both. */
  mode: z.enum(policyModes).default('enforce'),
  /** What becomes of a pod of which it is not known whether a policy concerns it. */
  whenUnknown: z.enum(['closed', 'refuse', 'open']).default('closed'),
  /** Of which pods what policies deny is logged; `annotated`: those with `seine.dev/log`, or in a namespace with it. */
  logDenied: z.enum(['off', 'annotated', 'all']).default('annotated'),
  /** What becomes of connections that were let in and policies deny now. */
  liveConnections: z.enum(liveConnectionsChoices).default('cut'),
  /** New connections a second that one pod whose egress is policed may open to Services. */
  serviceOpenings: z.int().min(1).max(1_000_000).default(2_000),
  /** Above so many pods of the cluster the agent warns that it watches them all; it goes on. */
  directWatchPods: z.int().min(1).default(20_000),
  /** Whether what each rule has counted is a metric; its labels name policies. */
  ruleMetrics: z.boolean().default(false),
});

const schema = z
  .strictObject({
    nodeName: z
      .string()
      .regex(/^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$/, 'is no node name (RFC 1123 subdomain)')
      .optional(),
    kubeconfig: absolutePath.optional(),
    /** Where the API server is when its Service is not served yet: by this agent itself, without kube-proxy. */
    kubeAPIServerOverride: z.url({ protocol: /^https?$/, error: 'is no https:// or http:// URL' }).optional(),
    ovsBridge: interfaceName.default('br-int'),
    hostGateway: interfaceName.default('antrea-gw0'),
    tunnelInterface: interfaceName.default('antrea-tun0'),
    trafficEncapMode: later(['encap'], ['noEncap', 'hybrid', 'networkPolicyOnly']).default('encap'),
    trafficEncryptionMode: later(['none'], ['ipsec', 'wireGuard']).default('none'),
    tunnelType: later(['geneve', 'vxlan', 'gre'], ['stt']).default('geneve'),
    /** 0: the type's own. */
    tunnelPort: z.int().min(0).max(65_535).default(0),
    /** Checksum of the outer UDP or GRE header, for networks that do not check what they carry. */
    tunnelCsum: z.boolean().default(false),
    /** Pods fill in checksums themselves; for data paths that do not. */
    disableTXChecksumOffload: z.boolean().default(false),
    /** 0: the transport interface's, less what the tunnel needs. */
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
    /** Where the runtime looks for CNI plugins and their configuration, as the agent sees them. */
    cniBinDir: absolutePath.default('/opt/cni/bin'),
    cniConfDir: absolutePath.default('/etc/cni/net.d'),
    apiSocket: socketPath.default('/run/seine/agent.sock'),
    stateDir: absolutePath.default('/var/lib/seine'),
    ovsRunDir: absolutePath.default('/run/openvswitch'),
    ovsDatapathType: later(['system', 'netdev'], []).default('system'),
    metricsAddress: address.default('127.0.0.1:10351'),
    /** `/metrics` by TLS, for callers whom the API server knows and RBAC lets; empty: nowhere. */
    metricsTLSAddress: address.default(''),
    /** PEM. Without them the agent makes a certificate that nobody has signed. */
    metricsTLSCertFile: absolutePath.optional(),
    metricsTLSKeyFile: absolutePath.optional(),
    hostFirewall: z.enum(['own', 'manage']).default('own'),
    /** `check`: kernel settings that the node needs are not written, only reported. */
    hostSettings: z.enum(['manage', 'check']).default('manage'),
    /** Whether names, addresses and routes inside pods are put back; otherwise what differs is only reported. */
    repairPods: z.boolean().default(false),
    /** What a new pod gets: `standing`: an interface over a port that stays plugged in, where one is free; `auto`: that, unless the pod's limits of bandwidth are another plugin's; `veth`. */
    podInterface: z.enum(['auto', 'standing', 'veth']).default('auto'),
    /** What STATUS of the CNI plugin says. */
    status: statusSchema.prefault({}),
    policy: policySchema.prefault({}),
    logLevel: z.enum(['error', 'warn', 'info', 'debug']).default('info'),
  })
  .refine((config) => (config.metricsTLSCertFile === undefined) === (config.metricsTLSKeyFile === undefined), {
    path: ['metricsTLSKeyFile'],
    error: 'is wanted with metricsTLSCertFile, and that with it',
  });

/** How an agent is set up; keys and their meaning are Antrea's where Antrea has them. */
export type AgentConfig = Omit<z.output<typeof schema>, 'nodeName'> & { readonly nodeName: string };

/** Every key that there is, those of `proxy`, `status` and `policy` with a dot. */
export function configKeys(): readonly string[] {
  const inner = { proxy: proxySchema, status: statusSchema, policy: policySchema };
  const parts = Object.entries(inner).flatMap(([name, { shape }]) => Object.keys(shape).map((key) => `${name}.${key}`));
  return [...Object.keys(schema.shape).filter((key) => !Object.hasOwn(inner, key)), ...parts];
}

/** JSON Schema of what may be written, as far as one can say it: conditions on values that are computed are left out. */
export function settingsSchema(): z.core.JSONSchema.BaseSchema {
  return z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' });
}

/**
 * Reads a configuration of which every key must be known.
 *
 * @param text YAML; empty means all defaults
 * @throws SeineError `INVALID_INPUT` naming every wrong field with its path and what is wrong with it
 */
export function parseConfig(text: string, environment: Variables): AgentConfig {
  const { config, unknown } = acceptConfig(text, environment);
  if (unknown.length > 0) throw invalid(unknown.map((key) => `unknown field ${JSON.stringify(key)}`));
  return config;
}

type Variables = Readonly<Record<string, string | undefined>>;

/**
 * As `parseConfig`, but leaves out keys that this release does not know: a newer release's may be there after a way back, and a restart must
 * not take the node off the network.
 *
 * @returns the unknown keys by their path, e.g. `proxy.fastPath`
 */
export function acceptConfig(text: string, environment: Variables): { readonly config: AgentConfig; readonly unknown: readonly string[] } {
  const document = parseDocument(text) ?? {};
  const first = schema.safeParse(document);
  const unknown = first.success ? [] : first.error.issues.flatMap(unknownKeys);
  const result = unknown.length === 0 ? first : schema.safeParse(unknown.reduce(without, document));
  if (!result.success) throw invalid([...unknown.map(unknownField), ...result.error.issues.map(describe)]);
  const { nodeName = environment['NODE_NAME'] ?? hostname().toLowerCase(), ...rest } = result.data;
  return { config: { nodeName, ...rest }, unknown: unknown.map((path) => path.join('.')) };
}

/** Where an agent keeps its state by this configuration, however much else is wrong with it. */
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
    // What is odd and can be read is no reason to print octets of the file on standard error, as the library would.
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
