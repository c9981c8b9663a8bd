import type { Instructions } from '../../src/openflow/flows/instructions.ts';
import type { Match } from '../../src/openflow/match/match.ts';

/** A flow as values, not encoded. */
export interface BenchFlow {
  readonly command: 'add';
  readonly table: number;
  readonly priority: number;
  readonly cookie: bigint;
  readonly match: Match;
  readonly does: Instructions;
}

const shapes: readonly ((n: number) => { readonly match: Match; readonly does: Instructions })[] = [loadBalanced, routed, policed, ipv6];

/** The `n`th of many different flows. Each has 20 match fields, actions and instructions in all, with its own values. */
export function benchFlow(n: number): BenchFlow {
  const shape = shapes[n % shapes.length] ?? loadBalanced;
  return { command: 'add', table: 10 + (n % 4), priority: 100 + (n % 100), cookie: 0x0100_0000_0000n + BigInt(n), ...shape(n) };
}

function address(n: number): number {
  return (0x0a00_0000 + (n & 0x00ff_ffff)) >>> 0;
}

function mac(n: number): number {
  return 0x0a_0000_0000_00 + n;
}

/** To an endpoint of a Service: 9 fields, 10 actions, `goto_table`. */
function loadBalanced(n: number): ReturnType<(typeof shapes)[number]> {
  return {
    match: {
      in_port: 1 + (n % 500),
      eth_type: 0x0800,
      ip_src: { value: 0x0a0a_0000, mask: 0xffff_0000 },
      ip_dst: address(n),
      ip_proto: 6,
      tcp_dst: 1024 + (n % 60_000),
      reg0: { value: 0x10, mask: 0xf0 },
      reg4: { value: 2, mask: 3 },
      ct_state: { value: 0x22, mask: 0x22 },
    },
    does: {
      apply: [
        { kind: 'load', to: { field: 'reg0', offset: 9, bits: 1 }, value: 1 },
        { kind: 'load', to: { field: 'reg4', offset: 16, bits: 3 }, value: 2 },
        { kind: 'setField', field: 'reg3', value: address(n) },
        { kind: 'move', from: { field: 'eth_src', offset: 0, bits: 48 }, to: { field: 'eth_dst', offset: 0, bits: 48 } },
        { kind: 'setField', field: 'eth_src', value: mac(n) },
        { kind: 'setField', field: 'eth_dst', value: mac(n + 1) },
        { kind: 'decTtl' },
        { kind: 'setField', field: 'pkt_mark', value: 0x40, mask: 0xf0 },
        { kind: 'ctClear' },
        { kind: 'group', group: 1 + (n % 1000) },
      ],
      gotoTable: 20,
    },
  };
}

/** To a pod on another node: 10 fields, 10 actions. */
function routed(n: number): ReturnType<(typeof shapes)[number]> {
  return {
    match: {
      eth_type: 0x0800,
      eth_dst: mac(7),
      ip_dst: { value: address(n) & 0xffff_ff00, mask: 0xffff_ff00 },
      nw_ttl: 1 + (n % 250),
      reg0: { value: 3, mask: 0xf },
      reg1: n,
      reg2: n % 77,
      ct_zone: 0xfff0,
      ct_mark: { value: 4, mask: 4 },
      metadata: BigInt(n),
    },
    does: {
      apply: [
        { kind: 'setField', field: 'tun_dst', value: address(n) },
        { kind: 'setField', field: 'tun_id', value: BigInt(n % 4096) },
        { kind: 'load', to: { field: 'reg1', offset: 0, bits: 32 }, value: 2 },
        { kind: 'load', to: { field: 'reg0', offset: 4, bits: 4 }, value: 1 },
        { kind: 'setField', field: 'eth_dst', value: mac(n) },
        { kind: 'setField', field: 'ip_dscp', value: n % 63 },
        { kind: 'decTtl' },
        { kind: 'resubmit', table: 12 },
        { kind: 'push', from: { field: 'reg1', offset: 0, bits: 32 } },
        { kind: 'output', port: 2 },
      ],
    },
  };
}

/** A rule of a policy: 12 fields, 8 actions and those in `ct`. */
function policed(n: number): ReturnType<(typeof shapes)[number]> {
  return {
    match: {
      eth_type: 0x0800,
      eth_src: mac(n),
      eth_dst: mac(n + 1),
      ip_src: address(n),
      ip_dst: address(n + 1),
      ip_proto: 17,
      udp_src: { value: 0x8000, mask: 0x8000 },
      udp_dst: n % 65_536,
      reg5: n,
      ct_mark: { value: 1, mask: 1 },
      ct_state: { value: 0x21, mask: 0x21 },
      pkt_mark: n,
    },
    does: {
      apply: [
        { kind: 'meter', meter: 1 },
        { kind: 'setField', field: 'reg7', value: n & 0xff_ffff, mask: 0xff_ffff },
        { kind: 'load', to: { field: 'reg6', offset: 0, bits: 32 }, value: n },
        {
          kind: 'ct',
          commit: true,
          zone: 0xfff0,
          table: 30,
          exec: [
            { kind: 'setField', field: 'ct_mark', value: 0x10, mask: 0x30 },
            { kind: 'load', to: { field: 'ct_label', offset: 32, bits: 32 }, value: n },
          ],
        },
        { kind: 'resubmit', port: 5, table: 9 },
        { kind: 'outputRegister', from: { field: 'reg1', offset: 0, bits: 16 }, maxLength: 0xffff },
      ],
    },
  };
}

/** Both families: 8 fields, 12 actions. */
function ipv6(n: number): ReturnType<(typeof shapes)[number]> {
  const wide = 0xfd00_0010_0244_0000_0000_0000_0000_0000n + BigInt(n);
  return {
    match: {
      in_port: 3,
      eth_type: 0x86dd,
      ipv6_src: { value: wide, mask: 0xffff_ffff_ffff_ffff_0000_0000_0000_0000n },
      ipv6_dst: wide,
      ip_proto: 6,
      tcp_dst: { value: 0x1000, mask: 0xf000 },
      reg0: { value: 1, mask: 0xff },
      ct_state: { value: 1, mask: 1 },
    },
    does: {
      apply: [
        { kind: 'setField', field: 'ipv6_dst', value: wide },
        { kind: 'setField', field: 'tcp_dst', value: 8080 },
        { kind: 'load', to: { field: 'reg0', offset: 9, bits: 1 }, value: 1 },
        { kind: 'load', to: { field: 'reg0', offset: 12, bits: 4 }, value: 5 },
        { kind: 'load', to: { field: 'xxreg3', offset: 0, bits: 128 }, value: wide },
        { kind: 'setField', field: 'eth_src', value: mac(n) },
        { kind: 'setField', field: 'eth_dst', value: mac(n + 1) },
        { kind: 'move', from: { field: 'reg1', offset: 0, bits: 16 }, to: { field: 'reg2', offset: 16, bits: 16 } },
        { kind: 'decTtl' },
        { kind: 'controller', controller: 5, userdata: Uint8Array.of(1, 2, 3, 4) },
        { kind: 'pushVlan', etherType: 0x8100 },
        { kind: 'output', port: 4 },
      ],
    },
  };
}
