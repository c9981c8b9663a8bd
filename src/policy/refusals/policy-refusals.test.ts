import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { type DeniedPacketFacts, documentedAnswer, knownForMs } from '../../../test/model/refusal-reference.ts';
import { decodeFrame, encodeFrame, ipProtocols } from '../../../test/support/frame.ts';
import { silentLog } from '../../base/log/log.ts';
import { parseIp } from '../../base/net/ip.ts';
import { parseMac } from '../../base/net/mac.ts';
import { reg } from '../../dataplane/pipeline/fields.ts';
import { tables } from '../../dataplane/pipeline/tables.ts';
import type { Packet } from '../../dataplane/switch-model/packet.ts';
import { networkPolicies } from '../../kubernetes/resources/network-policy.ts';
import { decodePacketOut, type PacketIn } from '../../openflow/packet.ts';
import { ofPort as ofPorts } from '../../openflow/protocol.ts';
import { RecentAddresses } from '../controller/recent-addresses.ts';
import { PolicyEngine } from '../engine/policy-engine.ts';
import { PolicyRefusals } from './policy-refusals.ts';

const link = { ethSrc: parseMac('0e:aa:00:00:00:05'), ethDst: parseMac('0e:00:00:00:01:01') };
const webPort = 32_784;
const addresses = {
  ipv4: { web: '10.10.0.5', far: '10.10.4.9', unused: '10.10.4.77', gateway: '10.10.4.1', outside: '192.0.2.7', service: '10.96.0.10' },
  ipv6: {
    web: 'fd00:10::5',
    far: 'fd00:10:0:1::9',
    unused: 'fd00:10:0:1::77',
    gateway: 'fd00:10:0:1::1',
    outside: '2001:db8::7',
    service: 'fd00:96::10',
  },
} as const;

let nowMs: number;
let sent: Uint8Array[];
let receive: (packet: PacketIn) => void;
let engine: PolicyEngine;
let recent: RecentAddresses;
let refusals: PolicyRefusals;

const policy = (spec: object) =>
  networkPolicies.project({ metadata: { namespace: 'shop', name: 'web', uid: 'p', generation: 1 }, spec: { podSelector: {}, ...spec } }) ??
  expect.fail();
const put = (name: string, nodeName: string, podIps: readonly string[]): void => {
  const pod = { namespace: 'shop', name, nodeName, podIps, labels: { app: name }, ports: {} };
  recent.note(`shop/${name}`, podIps);
  engine.putPod(pod);
};

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['performance'] });
  [nowMs, sent] = [0, []];
  engine = new PolicyEngine('n1');
  recent = new RecentAddresses(engine, () => nowMs);
  engine.putNode({ name: 'n1', podCidrs: ['10.10.0.0/22', 'fd00:10::/64'], addresses: ['192.168.77.1'] });
  engine.putNode({ name: 'n2', podCidrs: ['10.10.4.0/22', 'fd00:10:0:1::/64'], addresses: ['192.168.77.2'] });
  engine.putNamespace('shop', {});
  put('web', 'n1', [addresses.ipv4.web, addresses.ipv6.web]);
  put('far', 'n2', [addresses.ipv4.far, addresses.ipv6.far]);
  engine.putPolicy(policy({ policyTypes: ['Ingress', 'Egress'] }));
  engine.update();
  nowMs = knownForMs;
  refusals = new PolicyRefusals({
    packets: {
      on: (reason, take) => void (reason === 'refused' && (receive = take)),
      send: async (messages) => void sent.push(...messages),
    },
    policy: {
      get matrix() {
        return engine.matrix;
      },
      podAt: (port) => (port === webPort ? 'shop/web' : undefined),
      holderOf: (ip) => engine.holderOf(ip),
      isInPodNetwork: (ip) => engine.isInPodNetwork(ip),
      isRecent: (address) => recent.has(address),
    },
    log: silentLog,
  });
});

afterEach(() => void vi.useRealTimers());

/** Passes a packet that the flows denied. */
function deny(direction: 'ingress' | 'egress', packet: Packet, fields: PacketIn['fields'] = {}): void {
  const data = encodeFrame(packet);
  const port = direction === 'egress' ? { in_port: webPort } : { in_port: 1, reg1: webPort };
  receive({ table: tables.refusals.id, reason: 'action', fields: { ...port, ...fields }, fullLength: data.length, data });
}

const answers = () => sent.map((message) => decodePacketOut(message));

describe.each(['ipv4', 'ipv6'] as const)('a denied client of %s', (family) => {
  const of = addresses[family];
  const syn = { ...link, payload: family, ttl: 63, protocol: 'tcp', portSrc: 40_000, portDst: 8080, tcpFlags: 'syn' } as const;
  const inbound = { ...syn, ipSrc: parseIp(of.far), ipDst: parseIp(of.web) };
  const outbound = { ...syn, ipSrc: parseIp(of.web), ipDst: parseIp(of.far) };

  it('is answered by a packet that OVS routes to it without tracking and without evaluation', () => {
    deny('ingress', inbound);
    const [answer = expect.fail()] = answers();
    expect(answer.fields).toEqual({ in_port: ofPorts.controller });
    const marks = [reg.source('pod'), reg.routed('yes'), reg.verdict('standing')];
    expect(answer.actions).toEqual([
      ...marks.map(({ reg: number, value, mask }) => ({ kind: 'setField', field: `reg${number}`, value, mask })),
      expect.objectContaining({ kind: 'resubmit', table: tables.route.id }),
    ]);
    expect(refusals.counters).toMatchObject({ answered: 1 });
  });

  it('of a Service is answered from the address and the port of the Service', () => {
    const service = parseIp(of.service);
    const original = family === 'ipv4' ? { ct_nw_dst: Number(service.value) } : { ct_ipv6_dst: service.value };
    deny('egress', outbound, { ...original, ct_tp_dst: 80 });
    const data = Buffer.from(answers()[0]?.data ?? []);
    expect(data.readUInt16BE(family === 'ipv4' ? 34 : 54)).toBe(80);
    expect(data.subarray(family === 'ipv4' ? 26 : 22).subarray(0, family === 'ipv4' ? 4 : 16)).toEqual(
      Buffer.from(encodeFrame({ ...syn, ipSrc: service, ipDst: service })).subarray(
        family === 'ipv4' ? 26 : 22,
        family === 'ipv4' ? 30 : 38,
      ),
    );
  });

  it('is answered exactly as the reference states', () => {
    const peers = ['known', 'new', 'unknown', 'external', 'gateway'] as const;
    const packets = fc.constantFrom<Partial<Packet>>(
      {},
      { tcpFlags: 'ack' },
      { tcpFlags: 'rst' },
      { tcpFlags: 'syn-ack' },
      { protocol: 'udp' },
      { protocol: family === 'ipv4' ? 'icmp' : 'icmp6', icmpType: family === 'ipv4' ? 8 : 128, icmpId: 3 },
      { protocol: family === 'ipv4' ? 'icmp' : 'icmp6', icmpType: family === 'ipv4' ? 3 : 1 },
    );
    fc.assert(
      fc.property(packets, fc.constantFrom(...peers), fc.boolean(), fc.boolean(), (parts, peer, isIngress, isAllowedNow) => {
        sent.length = 0;
        engine.putPolicy(policy({ policyTypes: ['Ingress', 'Egress'], ...(isAllowedNow && { ingress: [{}], egress: [{}] }) }));
        engine.removePod('shop/far');
        engine.update();
        put('far', 'n2', [of.far]);
        engine.update();
        nowMs += peer === 'new' ? knownForMs - 1 : knownForMs;
        const there = { known: of.far, new: of.far, unknown: of.unused, external: of.outside, gateway: of.gateway }[peer];
        const ends = isIngress ? { ipSrc: parseIp(there), ipDst: parseIp(of.web) } : { ipSrc: parseIp(of.web), ipDst: parseIp(there) };
        const packet: Packet = { ...syn, ...ends, ...parts };
        const facts: DeniedPacketFacts = {
          packet,
          sender: !isIngress
            ? 'pod of this node'
            : peer === 'external'
              ? 'external client'
              : peer === 'gateway'
                ? 'node'
                : 'pod of another node',
          subject: 'policed',
          peer: { known: knownForMs, new: knownForMs - 1, unknown: 'unknown', external: 'external', gateway: 'external' }[peer] as never,
          now: isAllowedNow ? 'allow' : 'deny',
          denied: 'reject',
        };
        deny(isIngress ? 'ingress' : 'egress', packet);
        const [answer] = answers();
        const isReset = answer?.data[family === 'ipv4' ? 23 : 20] === ipProtocols.tcp;
        expect(answer && (isReset ? 'reset' : 'prohibited')).toBe(documentedAnswer(facts));
      }),
      { numRuns: 300 },
    );
  });

  it('is not answered for a pod of which too little is known, nor for a port that no pod has', () => {
    engine.removePod('shop/web');
    engine.update();
    deny('ingress', inbound);
    put('web', 'n1', [of.web]);
    engine.update();
    nowMs += knownForMs;
    receive({ table: tables.refusals.id, reason: 'action', fields: { in_port: 7 }, fullLength: 0, data: encodeFrame(outbound) });
    expect(sent).toEqual([]);
    expect(refusals.counters).toEqual({ answered: 0, limited: 0, too_new: 0, not_denied: 2, not_opening: 0 });
  });

  it('is answered after its address moved to another pod only once that pod is known for a while', () => {
    put('other', 'n2', [of.far]);
    engine.removePod('shop/far');
    engine.update();
    deny('ingress', inbound);
    expect(refusals.counters).toMatchObject({ answered: 0, too_new: 1 });
    nowMs += knownForMs;
    deny('ingress', inbound);
    expect(refusals.counters).toMatchObject({ answered: 1, too_new: 1 });
  });

  it('that rejects in turn gets no answer to an answer', () => {
    deny('ingress', inbound);
    const data = answers()[0]?.data ?? expect.fail();
    receive({ table: tables.refusals.id, reason: 'action', fields: { in_port: webPort }, fullLength: data.length, data });
    expect([sent.length, refusals.counters.not_opening]).toEqual([1, 1]);
  });

  it('is limited', () => {
    for (let n = 0; n < 2_100; n++) deny('egress', outbound);
    expect(refusals.counters).toMatchObject({ answered: 2_000, limited: 100 });
  });

  it('gets an error that quotes its datagram', () => {
    deny('ingress', { ...inbound, protocol: 'udp' });
    expect(decodeFrame(answers()[0]?.data ?? expect.fail())).toMatchObject({ ipSrc: inbound.ipDst, ipDst: inbound.ipSrc });
  });
});
