import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Environment } from './environment.ts';
import { CniError } from './errors.ts';
import { type AddRequest, parseCniRequest } from './request.ts';

const env: Environment = {
  CNI_COMMAND: 'ADD',
  CNI_CONTAINERID: 'c1',
  CNI_NETNS: '/run/netns/c1',
  CNI_IFNAME: 'eth0',
  CNI_PATH: '/opt/cni/bin',
};

function confWith(extra: object): string {
  return JSON.stringify({ cniVersion: '1.1.0', name: 'net', type: 'seine', ...extra });
}

function parseAdd(extra: object, variables: Environment = {}): AddRequest {
  const request = parseCniRequest({ ...env, ...variables }, confWith(extra));
  if (request.command !== 'ADD') throw new Error(`parsed as ${request.command}`);
  return request;
}

function failureOf(work: () => unknown): string {
  try {
    work();
  } catch (thrown) {
    if (thrown instanceof CniError) return `${thrown.code} ${thrown.message}`;
    throw thrown;
  }
  return 'no failure';
}

describe('a request', () => {
  it('is narrowed to what the agent needs', () => {
    const args = 'IgnoreUnknown=1;K8S_POD_NAMESPACE=ns;K8S_POD_NAME=pod-1;K8S_POD_UID=u-1;FOO=bar';
    expect(parseAdd({ deadline: 2.5, dns: { nameservers: ['10.0.0.53'] } }, { CNI_ARGS: args })).toEqual({
      command: 'ADD',
      cniVersion: '1.1.0',
      network: 'net',
      settings: { agentSocket: '/run/seine/cni.sock', stateDir: '/var/lib/seine', deadlineMs: 2_500 },
      attachment: { network: 'net', containerId: 'c1', ifName: 'eth0' },
      netns: '/run/netns/c1',
      pod: { namespace: 'ns', name: 'pod-1', uid: 'u-1' },
      dns: { nameservers: ['10.0.0.53'] },
      portMappings: [],
      requestedIps: [],
    });
  });

  it.each([
    [{ CNI_CONTAINERID: '', CNI_IFNAME: '' }, '4 ADD needs CNI_CONTAINERID, CNI_IFNAME: not set'],
    [{ CNI_NETNS: 'netns/c1' }, '4 CNI_NETNS: "netns/c1": not an absolute path'],
    [{ CNI_IFNAME: 'eth0\u0007' }, '4 CNI_IFNAME: "eth0\\u0007": not a name for a network interface'],
    [{ CNI_IFNAME: 'sixteen-letters-' }, '4 CNI_IFNAME: "sixteen-letters-": longer than 15 characters'],
    [{ CNI_CONTAINERID: 'x'.repeat(1025) }, `4 CNI_CONTAINERID: "${'x'.repeat(100)}": longer than 1024 characters`],
    [{ CNI_ARGS: 'K8S_POD_NAMESPACE=a;K8S_POD_NAME=../b' }, '4 CNI_ARGS: K8S_POD_NAME: "../b" is not a name of Kubernetes'],
    [{ CNI_ARGS: 'IgnoreUnknown=maybe' }, '4 CNI_ARGS: IgnoreUnknown: "maybe" is neither 1 nor 0'],
    [{ CNI_ARGS: '__proto__=1' }, '4 CNI_ARGS: "__proto__=1": unknown key'],
  ] as const)('with variables %j is refused', (variables, message) => {
    expect(failureOf(() => parseAdd({}, variables))).toBe(message);
  });

  it.each([
    [{ agentSocket: 'cni.sock' }, '7 agentSocket: "cni.sock" is not an absolute path of at most 107 characters'],
    [{ stateDir: '/var/x\u001b[2J\ny' }, '7 stateDir: "/var/x\\u001b[2J\\ny" is not an absolute path of at most 3000 characters'],
    [{ agentSocket: `/${'s'.repeat(107)}` }, expect.stringMatching(/^7 agentSocket: /)],
    [{ stateDir: 7 }, '7 stateDir: 7 is not a string'],
    [{ deadline: 0 }, '7 deadline: 0 is not a number of seconds up to 600'],
    [{ deadline: '30' }, '7 deadline: "30" is not a number of seconds up to 600'],
    [{ mtu: 9000 }, '2 mtu: 9000 is not supported'],
    [{ runtimeConfig: { DeviceID: '0000:00:01.0' } }, '2 runtimeConfig.deviceID: "0000:00:01.0" is not supported'],
    [{ ipam: { type: '../host-local' } }, '7 ipam.type: "../host-local" is not the name of a plugin'],
    [{ ipam: [] }, '7 ipam: [] is not an object'],
    [{ runtimeConfig: { portMappings: [{ HostPort: 80 }] } }, '7 runtimeConfig.portMappings[0].containerPort: missing'],
    [
      { runtimeConfig: { portMappings: [{ hostPort: 80, containerPort: 70_000 }] } },
      '7 runtimeConfig.portMappings[0].containerPort: 70000 is not a port',
    ],
    [{ runtimeConfig: { bandwidth: 5 } }, '7 runtimeConfig.bandwidth: 5 is not an object'],
    [{ runtimeConfig: { bandwidth: { EgressRate: '1M' } } }, '7 runtimeConfig.bandwidth.egressRate: "1M" is not an integer'],
    [{ runtimeConfig: { bandwidth: { egressRate: -1 } } }, '7 runtimeConfig.bandwidth.egressRate: -1 is negative'],
    [{ runtimeConfig: { bandwidth: { egressRate: 1, egressBurst: 1.5 } } }, '7 runtimeConfig.bandwidth.egressBurst: 1.5 is not an integer'],
    [{ runtimeConfig: { bandwidth: { egressBurst: 8 } } }, '7 runtimeConfig.bandwidth.egressBurst: 8 without an egressRate'],
    [{ runtimeConfig: { bandwidth: { ingressRate: -5 } } }, '7 runtimeConfig.bandwidth.ingressRate: -5 is negative'],
    [{ runtimeConfig: { bandwidth: { ingressBurst: 8 } } }, '7 runtimeConfig.bandwidth.ingressBurst: 8 without an ingressRate'],
    [{ bandwidth: 'some' }, '7 bandwidth: "some" is neither egress nor both'],
    [{ runtimeConfig: { ips: [1] } }, '7 runtimeConfig.ips[0]: 1 is not a string'],
    [{ prevResult: { cniVersion: '2.0.0' } }, '7 prevResult.cniVersion: "2.0.0" is not supported'],
    [{ prevResult: { ips: [{}] } }, '7 prevResult.ips[0].address: missing'],
    [{ prevResult: { interfaces: [{ name: 'eth0', mtu: 'x' }] } }, '7 prevResult.interfaces[0].mtu: "x" is not an integer'],
    [{ dns: { search: 'a' } }, '7 dns.search: "a" is not a list'],
    [{ name: 'n/n' }, '7 name: "n/n" is not a network name'],
    [{ name: 5 }, '6 name: 5 is not a string'],
    [{ cniVersion: '1.2.0' }, '1 cniVersion: "1.2.0" is not supported'],
  ])('with configuration %j is refused', (conf, message) => {
    expect(failureOf(() => parseAdd(conf))).toEqual(message);
  });

  it('takes port mappings in the case of Go as well', () => {
    const runtimeConfig = {
      portMappings: [
        { HostPort: 8088, ContainerPort: 80, Protocol: 'TCP', HostIP: '' },
        { hostPort: 53, containerPort: 53, protocol: 'udp' },
      ],
    };
    expect(parseAdd({ runtimeConfig }).portMappings).toEqual([
      { hostPort: 8088, containerPort: 80, protocol: 'tcp', hostIp: '' },
      { hostPort: 53, containerPort: 53, protocol: 'udp', hostIp: '' },
    ]);
  });

  it.each([
    [
      { egressRate: 1_000_000, egressBurst: 80_000 },
      { rate: 1_000_000, burst: 80_000 },
    ],
    [
      { EgressRate: 1_000_000, EgressBurst: 80_000, IngressRate: 5 },
      { rate: 1_000_000, burst: 80_000 },
    ],
    // Burst not set: absent, kubelet's form, containerd's form.
    [{ egressRate: 1_000_000 }, { rate: 1_000_000, burst: 1_000_000 }],
    [
      { egressRate: 1_000_000, egressBurst: 2 ** 31 - 1 },
      { rate: 1_000_000, burst: 1_000_000 },
    ],
    [
      { egressRate: 1_000_000, egressBurst: 2 ** 32 - 1 },
      { rate: 1_000_000, burst: 1_000_000 },
    ],
    [{ ingressRate: 1_000_000, ingressBurst: 80_000, egressRate: 0, egressBurst: 0 }, undefined],
    [{}, undefined],
  ])('takes the egress limit from bandwidth %j', (bandwidth, egress) => {
    expect(parseAdd({ runtimeConfig: { bandwidth } }).egress).toEqual(egress);
    expect(parseAdd({ runtimeConfig: { Bandwidth: bandwidth } }).egress).toEqual(egress);
    const ofEgress = Object.entries(bandwidth).filter(([key]) => /^egress/i.test(key));
    const ingress = Object.fromEntries(ofEgress.map(([key, value]) => [key.replace(/^egress/i, 'ingress'), value]));
    expect(parseAdd({ runtimeConfig: { bandwidth: ingress } })).not.toHaveProperty('ingress');
    expect(parseAdd({ bandwidth: 'both', runtimeConfig: { bandwidth: ingress } })).toMatchObject({
      limits: 'both',
      ...(egress ? { ingress: egress } : {}),
    });
  });

  it('prefers the ips capability to args.cni.ips, and that to IP in CNI_ARGS', () => {
    const fromArgs = { CNI_ARGS: 'IP=10.0.0.7' };
    const args = { cni: { ips: ['10.0.0.6/24'] } };
    expect(parseAdd({}, fromArgs).requestedIps).toEqual([{ text: '10.0.0.7', field: 'CNI_ARGS: IP' }]);
    expect(parseAdd({ args }, fromArgs).requestedIps).toEqual([{ text: '10.0.0.6', field: 'args.cni.ips[0]' }]);
    expect(parseAdd({ args, runtimeConfig: { IPs: ['10.0.0.5/24', 'fd00::5/64'] } }, fromArgs).requestedIps).toEqual([
      { text: '10.0.0.5', field: 'runtimeConfig.ips[0]' },
      { text: 'fd00::5', field: 'runtimeConfig.ips[1]' },
    ]);
  });

  it('takes an address of each family from IP in CNI_ARGS, and a MAC in any place', () => {
    const both = { CNI_ARGS: 'IP=10.0.0.7/24,fd00::7;MAC=0a:58:00:00:00:07' };
    expect(parseAdd({}, both)).toMatchObject({
      requestedIps: [{ text: '10.0.0.7' }, { text: 'fd00::7' }],
      requestedMac: { text: '0a:58:00:00:00:07', field: 'CNI_ARGS: MAC' },
    });
    const runtimeConfig = { MAC: '0a:58:00:00:00:08' };
    expect(parseAdd({ runtimeConfig }, both).requestedMac).toEqual({ text: '0a:58:00:00:00:08', field: 'runtimeConfig.mac' });
  });

  it('replaces the DNS of the configuration by the dns capability', () => {
    const dns = { nameservers: ['192.0.2.1'], domain: 'example.org', search: ['a'] };
    const runtimeConfig = { dns: { Servers: ['192.0.2.53'], Searches: [], options: ['ndots:5'] } };
    expect(parseAdd({ dns, runtimeConfig }).dns).toEqual({
      nameservers: ['192.0.2.53'],
      domain: 'example.org',
      search: ['a'],
      options: ['ndots:5'],
    });
    expect(failureOf(() => parseAdd({ runtimeConfig: { dns: { servers: [53] } } }))).toBe(
      '7 runtimeConfig.dns.servers[0]: 53 is not a string',
    );
  });

  it('ignores prototype members', () => {
    const conf =
      '{"cniVersion":"1.0.0","name":"net","__proto__":{"deadline":1,"ipam":{"type":"evil"}},"constructor":{"prototype":{"mtu":1}}}';
    const request = parseCniRequest(env, conf);
    expect(request).toMatchObject({ settings: { deadlineMs: 30_000 } });
    expect(request).not.toHaveProperty('ipamType');
    expect(Object.prototype).not.toHaveProperty('mtu');
  });

  it.each([
    ['', /^6 network configuration: not JSON/],
    ['[]', /^6 network configuration: \[\] is not an object/],
    [`${'['.repeat(65)}${']'.repeat(65)}`, /^6 network configuration: nested deeper than 64 levels/],
    [`{"a":${'['.repeat(100_000)}`, /^6 network configuration: nested deeper/],
    ['null', /^7 name: the network has no name/],
  ])('of %.20s is refused', (stdin, message) => {
    expect(failureOf(() => parseCniRequest(env, stdin))).toMatch(message);
  });

  it('counts no brackets inside strings', () => {
    const name = 'net';
    const note = '[{"\\'.repeat(200);
    expect(parseCniRequest(env, JSON.stringify({ cniVersion: '1.0.0', name, note }))).toMatchObject({ command: 'ADD' });
  });
});

describe('DEL', () => {
  it('needs neither namespace nor arguments nor a readable result', () => {
    const variables = { ...env, CNI_COMMAND: 'DEL', CNI_NETNS: '', CNI_ARGS: 'nonsense' };
    expect(parseCniRequest(variables, confWith({ prevResult: 'x', mtu: 1, runtimeConfig: 3 }))).toMatchObject({
      command: 'DEL',
      attachment: { network: 'net', containerId: 'c1', ifName: 'eth0' },
    });
  });
});

describe('CHECK', () => {
  it('is unknown to configurations before 0.4.0', () => {
    const check = { ...env, CNI_COMMAND: 'CHECK' };
    expect(failureOf(() => parseCniRequest(check, confWith({ cniVersion: '0.3.1', prevResult: {} })))).toBe(
      '1 cniVersion: 0.3.1 does not allow CHECK',
    );
  });
});

describe('GC', () => {
  const gc = { CNI_COMMAND: 'GC', CNI_PATH: '/opt/cni/bin' };

  it('reads the valid attachments', () => {
    const list = [{ containerID: 'c1', ifname: 'eth0' }];
    expect(parseCniRequest(gc, confWith({ 'cni.dev/valid-attachments': list }))).toMatchObject({
      validAttachments: [{ containerId: 'c1', ifName: 'eth0' }],
    });
  });

  it('takes null for an empty list, as Go writes it, but not an absent one', () => {
    expect(parseCniRequest(gc, confWith({ 'cni.dev/valid-attachments': null }))).toMatchObject({ validAttachments: [] });
    expect(failureOf(() => parseCniRequest(gc, confWith({})))).toBe('7 cni.dev/valid-attachments: missing');
    expect(failureOf(() => parseCniRequest(gc, confWith({ 'cni.dev/valid-attachments': [{ ifname: 'eth0' }] })))).toMatch(
      /^7 .*has no containerID/,
    );
  });

  it('is unknown to configurations before 1.1.0', () => {
    expect(failureOf(() => parseCniRequest(gc, confWith({ cniVersion: '1.0.0' })))).toBe('1 cniVersion: 1.0.0 does not allow GC');
  });
});

describe('any input', () => {
  const keys = [
    'cniVersion',
    'name',
    'ipam',
    'runtimeConfig',
    'prevResult',
    'args',
    'dns',
    'deadline',
    'agentSocket',
    'cni.dev/valid-attachments',
  ];
  const nested = ['type', 'portMappings', 'ips', 'interfaces', 'routes', 'mac', 'cni', 'search', 'hostPort', 'address', '__proto__'];
  const json = fc.letrec((tie) => ({
    value: fc.oneof(
      { depthSize: 'small' },
      fc.constantFrom(null, true, 0, -1, 1e300, '', 'x', '1.1.0', '10.0.0.1/24'),
      fc.array(tie('value'), { maxLength: 3 }),
      fc.dictionary(fc.constantFrom(...nested), tie('value'), { maxKeys: 4, noNullPrototype: true }),
    ),
  })).value;
  const conf = fc.record(Object.fromEntries(keys.map((key) => [key, json])), { requiredKeys: [] });
  const command = fc.constantFrom('ADD', 'DEL', 'CHECK', 'GC', 'STATUS', 'VERSION');

  it('yields a request or a CniError, never anything else', () => {
    fc.assert(
      fc.property(command, conf, fc.boolean(), fc.string(), (CNI_COMMAND, extra, sane, CNI_ARGS) => {
        const stdin = JSON.stringify(sane ? { ...extra, cniVersion: '1.1.0', name: 'net' } : extra);
        failureOf(() => parseCniRequest({ ...env, CNI_COMMAND, CNI_ARGS }, stdin));
      }),
      { numRuns: 2_000 },
    );
  });
});
