import { readdirSync } from 'node:fs';
import { basename, join } from 'node:path';
import { z } from 'zod';
import { readIfThere } from '../machine/files.ts';
import type { RuntimePaths } from './paths.ts';

/** libcni's cached attachment. Source: libcni/api.go, cachedInfo. */
const cached = z.looseObject({
  kind: z.literal('cniCacheV1'),
  containerId: z.string(),
  networkName: z.string(),
  cniArgs: z.array(z.tuple([z.string(), z.string()])),
  result: z.looseObject({
    ips: z.array(z.looseObject({ address: z.string() })).optional(),
    interfaces: z.array(z.looseObject({ sandbox: z.string().optional() })).optional(),
  }),
});

/** A pod's network, as the runtime of its node recorded it. */
interface RecordedPod {
  readonly namespace: string;
  readonly name: string;
  readonly containerId: string;
  /** Path of its network namespace, on the host. */
  readonly netns: string;
  readonly ips: readonly string[];
}

/** @param paths folder of libcni's results, and the namespaces that they name */
export function attachedPods(paths: Pick<RuntimePaths, 'attachments' | 'netns'>, network: string): RecordedPod[] {
  const pods = filesOf(paths.attachments).flatMap((file) => attachedPod(readIfThere(join(paths.attachments, file)), network) ?? []);
  return pods.map((pod) => ({ ...pod, netns: join(paths.netns, basename(pod.netns)) }));
}

/** Undefined if the text is not an attachment to this network: a half-written file is read the next time. */
export function attachedPod(text: string | undefined, network: string): RecordedPod | undefined {
  const { data } = cached.safeParse(parsed(text));
  if (data === undefined || data.networkName !== network) return undefined;
  const args = new Map(data.cniArgs);
  const [namespace, name] = [args.get('K8S_POD_NAMESPACE'), args.get('K8S_POD_NAME')];
  const netns = data.result.interfaces?.flatMap(({ sandbox }) => sandbox || [])[0];
  if (namespace === undefined || name === undefined || netns === undefined) return undefined;
  const ips = (data.result.ips ?? []).map(({ address }) => address.replace(/\/.*$/, ''));
  return { namespace, name, containerId: data.containerId, netns, ips };
}

function parsed(text: string | undefined): unknown {
  try {
    return JSON.parse(text ?? 'null');
  } catch {
    return null;
  }
}

function filesOf(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    // No pod yet, so no folder.
    return [];
  }
}
