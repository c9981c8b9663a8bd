import fc from 'fast-check';
import { expect, it } from 'vitest';
import { allowed, clusters, type Question, questions } from '../model/random-services.ts';
import { vantageOf } from '../model/reference.ts';
import type { Scene } from '../model/scene.ts';
import { promised } from '../model/service-reference.ts';
import { PacketBench } from '../support/packet-bench.ts';
import { trace } from '../support/trace.ts';

/** Number of slots of groups with few endpoints. */
const hashes = Array.from({ length: 64 }, (_, index) => index + 1);
/** All results of a real switch for this probe, for any hash of the data path. */
async function happening(bench: PacketBench, { node, pods }: Scene, { asked, by, inPort, portSrc }: Question): Promise<string[]> {
  const ethSrc = pods.find(({ ofPort }) => ofPort === inPort)?.mac ?? node.gateway.mac;
  const ends = { ethSrc, ethDst: node.gateway.mac, payload: asked.ip.family, ipSrc: by.ip, ipDst: asked.ip, ttl: 64 };
  const ports = { portSrc, portDst: asked.port, ...(asked.protocol === 'tcp' && { tcpFlags: 'syn' as const }) };
  const packet = { ...ends, ...ports, ...(asked.protocol && { protocol: asked.protocol }) };
  const found = new Set<string>();
  for (const dpHash of hashes) {
    const { text } = await trace(bench.control, { inPort, packet }, { states: [], ctMark: 0, dpHash });
    found.add(outcome(text));
    if (!text.includes('group:')) break;
  }
  return [...found].toSorted();
}

function outcome(text: string): string {
  const [, address, port] = /nat\(dst=\[?([^\])]+?)\]?:(\d+)\)/.exec(text) ?? [];
  if (address !== undefined) return `${address} ${port}`;
  if (text.includes('controller')) return 'refused';
  return /\n\s*36\. /.test(text) ? 'itself' : 'dropped';
}

it("a real switch meets Kubernetes' promises for every client, with any Services", async () => {
  const scenes = fc.sample(clusters, { numRuns: 2 });
  for (const scene of scenes) {
    const bench = await PacketBench.start(scene);
    try {
      for (const question of questions(scene)) {
        const answer = promised(scene.services, question.asked, question.by, vantageOf(scene));
        if (answer === undefined) continue;
        const expected = allowed(scene, question);
        const { asked, by } = question;
        const who = `${by.kind} ${by.ip.text} asks ${asked.protocol} ${asked.ip.text} ${asked.port}`;
        const gets = await happening(bench, scene, question);
        expect({ who, gets }, JSON.stringify(scene.services)).toEqual({ who, gets: expected });
      }
    } finally {
      await bench.stop();
    }
  }
}, 120_000);
