import { describe, expect, it } from 'vitest';
import type { Finding } from '../../../api/check.ts';
import type { Problem } from '../../../api/problem.ts';
import { SeineError } from '../../../base/errors/seine-error.ts';
import {
  assessAgent,
  assessAssociations,
  assessConnections,
  assessForged,
  assessFragments,
  assessHealth,
  assessUnderlayForged,
  assessUnknownTunnelPeers,
} from './agent-state.ts';
import { assessSilence, assessSources } from './api-server.ts';
import { assessClock, offsetOf } from './clock.ts';
import { assessEntries } from './desired-state.ts';
import { assessBlocked } from './filters.ts';
import { assessDisk, assessLimits, softLimit } from './host.ts';
import { assessModules, assessSettings, kernelModules } from './kernel.ts';
import { assessPods } from './pods.ts';
import { assessPrePluggedPorts } from './ports.ts';
import { assessSwitch, assessVersion, type SwitchFacts } from './switch.ts';

const states = (findings: readonly Finding[]): readonly string[] => findings.map(({ check, state }) => `${check} ${state}`);
const MIB = 1024 * 1024;

describe('the agent’s own problems', () => {
  const look = { name: 'bridge', state: 'fresh', ageSeconds: 1, everySeconds: 4, roundSeconds: 6, tookMs: 1 } as const;
  const problem = (kind: Problem['kind'], about = 'x'): Problem => ({
    kind,
    about,
    message: `${kind} is wrong`,
    ageSeconds: 1,
    remedy: 'do this',
  });

  it('are a finding, except those with a finding of their own', () => {
    expect(states([assessHealth({ problems: [], healthChecks: [look] })])).toEqual(['agent.problems ok']);
    const elsewhere = [problem('connection'), problem('node', 'firewall')];
    expect(states([assessHealth({ problems: elsewhere, healthChecks: [look] })])).toEqual(['agent.problems ok']);
    expect(assessHealth({ problems: [...elsewhere, problem('node', 'settings')], healthChecks: [look] })).toMatchObject({
      state: 'problem',
      what: 'node is wrong',
      remedy: 'do this',
    });
    expect(states([assessHealth({ problems: [problem('object')], healthChecks: [look] })])).toEqual(['agent.problems warning']);
  });

  it('are not denied while a check is missing', () => {
    expect(assessHealth({ problems: [], healthChecks: [look, { ...look, name: 'cni', state: 'overdue' }] })).toMatchObject({
      state: 'warning',
      what: 'periodic checks overdue: cni',
    });
  });
});

describe('the clock', () => {
  const sent = Date.parse('2026-01-01T12:00:00.400Z');
  const offset = (date: string | undefined) => offsetOf(date, sent, sent + 200);

  it('is compared with a Date of whole seconds, written while we waited', () => {
    expect(offset('Thu, 01 Jan 2026 12:00:00 GMT')).toEqual({ aheadMs: 0, uncertainMs: 600 });
    expect(offset('Thu, 01 Jan 2026 11:59:00 GMT').aheadMs).toBe(60_000);
    expect(offset('yesterday').aheadMs).toBeUndefined();
    expect(offset(undefined).aheadMs).toBeUndefined();
  });

  it.each([
    [0, 0, 'clock ok'],
    [5_400, 0, 'clock ok'], // within the uncertainty of the measurement
    [30_000, 0, 'clock warning'],
    [-90_000, 0, 'clock problem'],
    [0, 7_000, 'clock warning'],
    [undefined, 0, 'clock unknown'],
    [undefined, -3_600_000, 'clock warning'],
  ] as const)('%j ms ahead and set by %j ms: %s', (aheadMs, jumpedMs, expected) => {
    expect(states(assessClock({ aheadMs, uncertainMs: 600, jumpedMs }))).toEqual([expected]);
  });

  it('reports both, and the direction', () => {
    const [against, jumped] = assessClock({ aheadMs: -90_000, uncertainMs: 600, jumpedMs: -90_000 });
    expect(against?.what).toContain('90 s behind the API server');
    expect(jumped?.what).toContain('set back by 90 s');
  });
});

describe('the API server', () => {
  it('is checked for permission after a rejection, for health otherwise', () => {
    const refused = new SeineError('REFUSED', 'the API server answered 403 Forbidden', { context: { status: 403 } });
    expect(assessSilence(refused, 'api').remedy).toContain('kubectl auth can-i');
    expect(assessSilence(new SeineError('UNAVAILABLE', 'ECONNREFUSED'), 'api').remedy).toContain('/readyz');
  });

  it('is synced for each resource, or the unsynced ones are named', () => {
    const source = { kind: 'Node', state: 'in step', failures: 0, objects: 3 } as const;
    expect(states(assessSources([source]))).toEqual(['api.sources ok']);
    const held = { known: 9, missing: 8 };
    const lost = (['not confirmed', 'refused', 'gone', 'behind', 'failing'] as const).map((state) => ({ ...source, state }));
    const findings = assessSources([source, ...lost, { ...source, state: 'held', held }]);
    expect(states(findings)).toEqual([...lost.map(() => 'api.sources problem'), 'api.sources warning']);
    expect(new Set(findings.map(({ what }) => what)).size).toBe(findings.length);
  });
});

describe('the host', () => {
  const disk = { path: '/var/lib/seine', freeBytes: 900 * MIB, freeFiles: 1_000, journalError: undefined };
  it.each([
    [{}, 'ok'],
    [{ freeFiles: undefined }, 'ok'],
    [{ freeBytes: 20 * MIB }, 'warning'],
    [{ freeBytes: MIB }, 'problem'],
    [{ freeFiles: 3 }, 'problem'],
    [{ journalError: 'ENOSPC' }, 'problem'],
  ])('has a disk with %j: %s', (change, state) => expect(assessDisk({ ...disk, ...change }).state).toBe(state));

  it.each([
    [50, 10, ['ok', 'ok']],
    [900, 110, ['warning', 'warning']],
    [1_000, 128, ['problem', 'problem']],
    [50, undefined, ['ok', 'ok']],
  ] as const)('has %j descriptors and %j inotify instances: %j', (open, instances, expected) => {
    const found = assessLimits({ descriptors: { open, most: 1_024 }, inotify: { open: instances, most: 128 } });
    expect(found.map(({ state }) => state)).toEqual(expected);
  });

  it('reads the soft limit of proc(5)', () => {
    const lines =
      'Max processes             1                    2                    processes \nMax open files            1024                 1048576              files     \n';
    expect(softLimit(lines)).toBe(1_024);
    expect(softLimit('Max open files            unlimited            unlimited            files')).toBe(Number.POSITIVE_INFINITY);
  });
});

describe('the kernel', () => {
  const module = { name: 'geneve', without: 'nothing', loaded: true, offered: true, works: true };
  it.each([
    [{}, 'ok'],
    [{ loaded: false }, 'ok'], // built in
    [{ loaded: false, works: undefined }, 'warning'],
    [{ loaded: false, works: false, offered: false }, 'problem'],
    [{ works: false }, 'problem'],
  ])('has a module that is %j: %s', (change, state) => expect(assessModules([{ ...module, ...change }]).state).toBe(state));

  it.each([
    ['geneve', 'geneve'],
    ['vxlan', 'vxlan'],
    ['gre', 'ip_gre'],
    ['ip6gre', 'ip6_gre'],
  ] as const)('needs for a tunnel port of type %s the module %s', (port, module) => {
    const needs = kernelModules(port, { gateway: true, tunnel: false, filter: true });
    expect(needs.filter(({ works }) => works === false).map(({ name }) => name)).toEqual([module]);
  });

  it('names a setting with the command that corrects it', () => {
    const setting = { name: ['net', 'ipv4', 'ip_forward'], value: '1', why: 'pods reach external clients' } as const;
    expect(states(assessSettings([setting], () => '1'))).toEqual(['kernel.settings ok']);
    expect(assessSettings([setting], () => '0')[0]).toMatchObject({ state: 'problem', remedy: 'sysctl -w net.ipv4.ip_forward=1' });
    const [found] = assessSettings(
      [setting],
      () => '0',
      () => ['/etc/sysctl.d/99-hardening.conf'],
    );
    expect(found?.what).toBe('net.ipv4.ip_forward is 0 and not 1; /etc/sysctl.d/99-hardening.conf sets it');
  });
});

describe('Open vSwitch', () => {
  const whole: SwitchFacts = {
    runDir: '/run/openvswitch',
    connections: { database: true, flows: true, packets: true },
    version: '3.1.0',
    dataPath: 'system',
    tunnel: 'geneve',
    dataPathTypes: ['netdev', 'system'],
    lacks: [],
    interfaceTypes: ['geneve', 'vxlan'],
    held: false,
  };
  it.each([
    [{}, ['ovs.connection ok', 'ovs.version ok', 'ovs.features ok']],
    [{ connections: { database: false, flows: true, packets: true } }, ['ovs.connection problem']],
    [{ connections: { database: true, flows: false, packets: true } }, ['ovs.connection problem', 'ovs.version ok', 'ovs.features ok']],
    [{ held: true }, ['ovs.connection problem', 'ovs.version ok', 'ovs.features ok']],
    [{ dataPathTypes: ['netdev'] }, ['ovs.connection ok', 'ovs.version ok', 'ovs.features problem']],
    [{ interfaceTypes: [] }, ['ovs.connection ok', 'ovs.version ok', 'ovs.features problem']],
    [
      { lacks: [{ feature: 'ct_state_nat', consequence: 'Services fail' }] },
      ['ovs.connection ok', 'ovs.version ok', 'ovs.features problem'],
    ],
  ])('with %j: %j', (change, expected) => expect(states(assessSwitch({ ...whole, ...change }))).toEqual(expected));

  it.each([
    ['2.16.9', 'problem'],
    ['2.17.0', 'warning'],
    ['3.0.1', 'warning'],
    ['3.1.0', 'ok'],
    ['4.0.0', 'ok'],
    ['', 'unknown'],
  ])('of version %j: %s', (version, state) => expect(assessVersion(version).state).toBe(state));

  it('may soon exhaust connections', () => {
    const of = (entries: number) => assessConnections([{ table: 'userspace', entries, limit: 100 }]);
    expect([of(10), of(85), of(100)].map(({ state }) => state)).toEqual(['ok', 'warning', 'problem']);
    expect(assessConnections([]).state).toBe('ok');
  });
});

describe('the desired state', () => {
  const entry = { kind: 'route', name: '10.10.4.0/22', state: 'missing', owners: ['peer/node-2'], wanted: 'route', actual: null } as const;
  it('is judged by target', () => {
    expect(states(assessEntries([], 0))).toEqual([
      'node.ports ok',
      'node.flows ok',
      'node.routes ok',
      'node.firewall ok',
      'node.interfaces ok',
    ]);
    expect(states(assessEntries([entry], 0))).toEqual([
      'node.ports ok',
      'node.flows ok',
      'node.routes problem',
      'node.firewall ok',
      'node.interfaces ok',
    ]);
  });

  it('is restored by ending a pause, if there is one', () => {
    expect(assessEntries([entry], 60)[2]).toMatchObject({
      remedy: 'seinectl resume',
      what: expect.stringContaining('paused for another 60 s'),
    });
    expect(assessEntries([{ ...entry, error: { message: '[REFUSED] no' } }], 0)[2]).toMatchObject({
      remedy: 'seinectl diff',
      what: 'route 10.10.4.0/22 missing; no',
    });
  });

  it('is counted if it is large', () => {
    const flows = Array.from({ length: 50 }, (_, at) => ({ ...entry, kind: 'flow', name: `f${at}` }) as const);
    expect(assessEntries(flows, 0)[1]?.what).toBe('flow f0 missing, flow f1 missing, flow f2 missing and 47 more');
  });
});

describe('pods', () => {
  const pod = { pod: 'default/a1', netns: '/run/netns/a1', ifName: 'eth0', link: { mtu: 1_450, transmitChecksum: 'off' as const } };
  it('have the properties that the data path needs', () => {
    expect(states(assessPods([pod], { mtu: 1_450, fillIn: true }))).toEqual(['pods ok']);
    const offloading = { ...pod, link: { mtu: 1_450, transmitChecksum: 'on' as const } };
    expect(assessPods([offloading], { mtu: 1_450, fillIn: true })[0]).toMatchObject({
      check: 'pods.checksum',
      remedy: 'nsenter --net=/run/netns/a1 ethtool -K eth0 tx off',
    });
    expect(states(assessPods([offloading], { mtu: 1_450, fillIn: false }))).toEqual(['pods ok']);
    expect(states(assessPods([pod], { mtu: 1_400, fillIn: true }))).toEqual(['pods.mtu problem']);
    expect(states(assessPods([{ ...pod, link: undefined }], { mtu: 1_450, fillIn: true }))).toEqual(['pods.interface problem']);
  });

  it('are named up to a limit, and never executed in the reader’s shell', () => {
    const many = Array.from({ length: 9 }, () => ({ ...pod, netns: "/run/netns/a'; rm -rf /; '", link: undefined }));
    const findings = assessPods(many, { mtu: 1_450, fillIn: true });
    expect(findings).toHaveLength(5);
    expect(findings[4]?.what).toContain('4 more pods alike');
    const [long] = assessPods([{ ...pod, netns: "/x'; rm -rf /; '" }], { mtu: 1, fillIn: false });
    expect(long?.remedy).toBe("nsenter --net='/x'\\''; rm -rf /; '\\''' ip link set eth0 mtu 1");
  });
});

describe('pre-plugged ports', () => {
  const counts = { free: 8, used: 3, coming: 0 };
  const none = new Map<string, number>();
  it('are not reported missing if none are desired, and counted otherwise', () => {
    expect(states(assessPrePluggedPorts({ counts, obstacle: 'off', fallbacks: none }))).toEqual(['ports.standing ok']);
    const [finding] = assessPrePluggedPorts({ counts, obstacle: undefined, fallbacks: new Map([['noneFree', 2]]) });
    expect(finding).toMatchObject({ state: 'ok', what: '8 free, 3 used, 0 coming; pods with a pair instead: 2 by noneFree' });
  });

  it('are not reported missing before the first pod, nor while more are being created', () => {
    const [first] = assessPrePluggedPorts({ counts: { free: 0, used: 0, coming: 0 }, obstacle: 'noNamespace', fallbacks: none });
    expect(first).toMatchObject({ state: 'ok', what: expect.stringContaining('with the first pod') });
    const [lost] = assessPrePluggedPorts({ counts, obstacle: 'noNamespace', fallbacks: none });
    expect(lost).toMatchObject({ state: 'warning' }); // pods have ports in it
    const coming = { free: 0, used: 3, coming: 8 };
    expect(states(assessPrePluggedPorts({ counts: coming, obstacle: 'noneFree', fallbacks: none }))).toEqual(['ports.standing ok']);
  });

  it.each(['noNamespace', 'notPinned', 'noMacvlan', 'noneFree'] as const)('are desired in vain, with the reason: %s', (obstacle) => {
    const [finding] = assessPrePluggedPorts({ counts, obstacle, fallbacks: new Map([['noNamespace', 1]]) });
    expect(finding).toMatchObject({ state: 'warning', what: expect.stringContaining('8 free'), effect: expect.stringContaining('veth') });
  });
});

it('names a foreign chain that drops, with the rule that opens it', () => {
  const chains = [{ family: 'inet', table: 'hardening', name: 'fwd', type: 'filter', hook: 'forward' }] as const;
  expect(states(assessBlocked([], chains, 'antrea-gw0', []))).toEqual(['firewall.pods ok']);
  expect(assessBlocked([{ family: 'ipv4', hook: 'forward' }], chains, 'antrea-gw0', [])[0]).toMatchObject({
    state: 'problem',
    what: expect.stringContaining('inet hardening fwd'),
    remedy: expect.stringContaining('nft insert rule inet hardening fwd iifname antrea-gw0 accept'),
  });
  expect(assessBlocked([{ family: 'ipv6', hook: 'input' }], [], 'antrea-gw0', [])[0]?.remedy).toContain('iptables-legacy');
});

it('does not blame firewall rules for packets that the kernel does not forward', () => {
  const [only, ...others] = assessBlocked([], [], 'antrea-gw0', ['ipv4']);
  expect(only).toMatchObject({ check: 'firewall.pods', state: 'unknown', remedy: 'sysctl -w net.ipv4.ip_forward=1' });
  expect(others).toEqual([]);
  expect(states(assessBlocked([{ family: 'ipv6', hook: 'forward' }], [], 'antrea-gw0', ['ipv4']))).toEqual([
    'firewall.pods unknown',
    'firewall.pods problem',
  ]);
});

it('reports whether the agent serves, repairs, and knows all tunnel peers', () => {
  expect(states(assessAgent({ state: 'ready' }, 0))).toEqual(['agent.ready ok']);
  expect(states(assessAgent({ state: 'impaired', reason: 'x' }, 9))).toEqual(['agent.ready problem', 'agent.repair warning']);
  expect([assessForged(0n), assessForged(3n)].map(({ state }) => state)).toEqual(['ok', 'warning']);
  expect([assessAssociations([], 7n), assessAssociations(['10.0.0.7'], 7n)].map(({ state }) => state)).toEqual(['ok', 'warning']);
  expect(assessUnknownTunnelPeers([]).state).toBe('ok');
  expect(assessUnknownTunnelPeers(['9.9.9.9', '8.8.8.8']).what).toContain('8.8.8.8, 9.9.9.9, which are not nodes');
});

it('warns of packets with pods’ addresses from outside of the tunnel, by family', () => {
  expect(assessUnderlayForged(new Map()).state).toBe('ok');
  expect(assessUnderlayForged(new Map([['ipv4', 0]])).state).toBe('ok');
  const found = assessUnderlayForged(
    new Map([
      ['ipv4', 0],
      ['ipv6', 3],
    ]),
  );
  expect([found.state, found.what]).toEqual(['warning', 'packets with addresses of pods or gateways arrived without a tunnel: 3 (ipv6)']);
});

it('dropped fragments are a warning that names the limit of the userspace data path', () => {
  expect([assessFragments(undefined), assessFragments(0)].map(({ state }) => state)).toEqual(['ok', 'ok']);
  const found = assessFragments(66);
  expect(found).toMatchObject({ check: 'ovs.fragments', state: 'warning' });
  expect([found.what, found.effect].join(' ')).toMatch(/^66 IP fragments.*more than 32 fragments/);
});
