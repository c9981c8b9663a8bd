import { setTimeout as sleep } from 'node:timers/promises';
import type { Lab, LabPod } from '../lab.ts';
import { podObject, victimNamespace } from './victim.ts';

const pollMs = 20;
const pods = `/api/v1/namespaces/${victimNamespace}/pods`;

export interface Arrival {
  /** Undefined if it has no network. */
  readonly pod: LabPod | undefined;
  /** Time from the API server's answer to the pod's network. */
  readonly tookMs: number;
}

/** New pods of the victim, one at each step, on its nodes in turn. The previous one is deleted. */
export class Newcomers {
  readonly #lab: Lab;
  #before: string | undefined;

  constructor(lab: Lab) {
    this.#lab = lab;
  }

  async arrive(number: number, withinMs: number): Promise<Arrival> {
    const { api, tried, other } = this.#lab;
    const name = `newcomer-${number + 1}`;
    if (this.#before !== undefined) await api.delete(`${pods}/${this.#before}`);
    this.#before = name;
    const node = number % 2 === 0 ? tried.name : other.name;
    await api.create(pods, podObject({ namespace: victimNamespace, name, node, app: 'newcomer' }));
    const startedMs = performance.now();
    for (;;) {
      const pod = (await this.#lab.status()).pods.find((each) => each.namespace === victimNamespace && each.name === name);
      const tookMs = performance.now() - startedMs;
      if ((pod !== undefined && pod.ips.length > 0) || tookMs > withinMs) return { pod: pod?.ips.length ? pod : undefined, tookMs };
      await sleep(pollMs);
    }
  }
}
