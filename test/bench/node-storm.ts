#!/usr/bin/env node
/**
 * `node-storm.ts DIR join|flap`: nodes join the cluster of a lab, all at once, or are deleted and recreated, a hundred changes a second. It
 * is a separate process, because it does not belong to the measured node.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { KubeApi } from '../../lab/kube/kube-api.ts';
import { readKubeconfig } from '../../lab/kube/kubeconfig.ts';
import { labPaths } from '../../lab/plan/names.ts';
import { nodeManifest } from './cluster-fill.ts';

const peers = 5_000;
/** Together with the other content of a Node, a list of all of them is 32 MB. */
const paddingBytes = 5_700;
const joinsAtOnce = 16;
const flapsPerSecond = 100;
const flapSeconds = 30;
const patience = () => AbortSignal.timeout(60_000);

const [dir = '', verb] = process.argv.slice(2);
const api = new KubeApi(await readKubeconfig(labPaths(dir).kubeconfig));
try {
  if (verb === 'join') await join();
  else if (verb === 'flap') await flap();
  else throw new Error(`${verb}: join or flap is wanted`);
} finally {
  api.close();
}

async function join(): Promise<void> {
  let next = 0;
  const worker = async (): Promise<void> => {
    for (let index = ++next; index <= peers; index = ++next) await create(index);
  };
  await Promise.all(Array.from({ length: joinsAtOnce }, worker));
}

/** Each node is deleted and recreated: two changes. */
async function flap(): Promise<void> {
  const changes: Promise<void>[] = [];
  for (let count = 0; count < (flapsPerSecond / 2) * flapSeconds; count++) {
    changes.push(comesBack(1 + ((count * 7) % peers)));
    await sleep(2_000 / flapsPerSecond);
  }
  await Promise.all(changes);
}

async function comesBack(index: number): Promise<void> {
  await api.send({ method: 'DELETE', path: `/api/v1/nodes/peer-${index}` }, patience());
  await create(index);
}

async function create(index: number): Promise<void> {
  const metadata = { name: `peer-${index}`, annotations: { padding: 'x'.repeat(paddingBytes) } };
  await api.send({ method: 'POST', path: '/api/v1/nodes', body: { ...nodeManifest(index), metadata } }, patience());
}
