import fc from 'fast-check';
import { expect, it } from 'vitest';
import { features, generation } from '../../src/pipeline/cookie.ts';
import { clusters, type Question, questions } from '../model/random-services.ts';
import { vantageOf } from '../model/reference.ts';
import type { Scene } from '../model/scene.ts';
import { promised } from '../model/service-reference.ts';
import { PacketBench } from '../support/packet-bench.ts';
import { trace } from '../support/trace.ts';

/** As many as groups of few endpoints have slots. */
const hashes = Array.from({ length: 64 }, (_, index) => index + 1);
/** A few of them, where each costs a visit of ovs-ofctl. */
const fewHashes = hashes.filter((hash) => hash % 9 === 0);

/** Cookies of generation and feature, whoever the owner is. */
const everythingLearned = `cookie=0x${((BigInt(generation) << 48n) | (BigInt(features.learned) << 40n)).toString(16)}/0xffffff0000000000`;

/** Everything that a real switch may do with this question, whichever way the data path's hash falls. */
async function happening(
  bench: PacketBench,
  { node, pods }: Scene,
  { asked, by, inPort }: Question,
  some: readonly number[],
): Promise<string[]> {
  const ethSrc = pods.find(({ ofPort }) => ofPort === inPort)?.mac ?? node.gateway.mac;
  const ends = { ethSrc, ethDst: node.gateway.mac, payload: asked.ip.family, ipSrc: by.ip, ipDst: asked.ip, ttl: 64 };
  const ports = { portSrc: 40_000, portDst: asked.port, ...(asked.protocol === 'tcp' && { tcpFlags: 'syn' as const }) };
  const packet = { ...ends, ...ports, ...(asked.protocol && { protocol: asked.protocol }) };
  const found = new Set<string>();
  for (const dpHash of some) {
    const { text } = await trace(bench.control, { inPort, packet }, { states: [], ctMark: 0, dpHash });
    found.add(outcome(text));
    // A trace of a whole packet learns; what one client got must not decide what the next hash gives.
    if (text.includes('learn(')) bench.ovs.exec('ovs-ofctl', '-O', 'OpenFlow15', 'del-flows', 'br-int', everythingLearned);
    if (!text.includes('group:')) break;
  }
  return [...found].toSorted();
}

function outcome(text: string): string {
  const [, address, port] = /nat\(dst=\[?([^\])]+?)\]?:(\d+)\)/.exec(text) ?? [];
  if (address !== undefined) return `${address} ${port}`;
  return text.includes('controller') ? 'refused' : 'dropped';
}

it('a real switch gives every client what Kubernetes promises, whatever Services there are', async () => {
  const scenes = fc.sample(clusters, { numRuns: 2 });
  for (const scene of scenes) {
    const bench = await PacketBench.start(scene);
    try {
      for (const question of questions(scene)) {
        const answer = promised(scene.services, question.asked, question.by, vantageOf(scene));
        if (answer === undefined) continue;
        const expected = answer.what === 'endpoints' ? [...new Set(answer.endpoints)].toSorted() : [answer.what];
        const { asked, by } = question;
        const who = `${by.kind} ${by.ip.text} asks ${asked.protocol} ${asked.ip.text} ${asked.port}`;
        const learns = answer.what === 'endpoints' && answer.affinity;
        const found = await happening(bench, scene, question, learns ? fewHashes : hashes);
        const gets = learns ? found.filter((each) => !expected.includes(each)) : found;
        expect({ who, gets }, JSON.stringify(scene.services)).toEqual({ who, gets: learns ? [] : expected });
      }
    } finally {
      await bench.stop();
    }
  }
}, 120_000);
