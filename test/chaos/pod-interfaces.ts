import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { ApiObject } from './api.ts';

/** What pods of the nodes get: a pair each, a macvlan over a port that stays plugged in, or one half each. */
export const podInterfaceKinds = ['veth', 'standing', 'half'] as const;
export type PodInterfaces = (typeof podInterfaceKinds)[number];

/** What the runtime remembers of an ADD. */
export interface Attachment {
  readonly containerId: string;
  readonly ifName: string;
  readonly network: string;
  readonly args: readonly (readonly [string, string])[];
  readonly capabilities: Readonly<Record<string, unknown>>;
  readonly result: {
    readonly cniVersion: string;
    readonly ips: readonly { readonly address: string }[];
    readonly interfaces: readonly { readonly name: string; readonly mac?: string; readonly sandbox?: string }[];
  };
}

/** Of the key of the agent. With `auto`, a pod that says that another plugin limits its bandwidth gets a pair. */
export const agentKey: Readonly<Record<PodInterfaces, string>> = { veth: 'veth', standing: 'standing', half: 'auto' };
/** No quantity, so that nobody limits anything. */
const asksForPair = { 'kubernetes.io/ingress-bandwidth': 'none' };

/** Some of those that a run begins with; of those that come, every second. */
const standing = /^client$|^db-0$|[13579]$/;

/** Annotations of a pod, for where one half each is asked for. */
export function annotationsOf(name: string): Readonly<Record<string, string>> {
  return standing.test(name) ? {} : asksForPair;
}

/** Of the pods of a node, as its runtime remembers them. */
export function attachmentsOf(rundir: string): readonly Attachment[] {
  const folder = join(rundir, 'cni-cache');
  return readdirSync(folder)
    .filter((file) => file.endsWith('.json'))
    .flatMap((file) => {
      try {
        return [JSON.parse(readFileSync(join(folder, file), 'utf8')) as Attachment];
      } catch {
        return []; // it has just gone
      }
    });
}

/** The node's end of what a pod has, as ADD answered. */
export function nodeEndOf({ result }: Pick<Attachment, 'result'>): string {
  return result.interfaces.find(({ sandbox }) => sandbox === undefined || sandbox === '')?.name ?? '';
}

export function isStanding(nodeEnd: string): boolean {
  return /^sp-\d+$/.test(nodeEnd);
}

/**
 * A pod as a virgin is told of it: it asks for the kind of interface that it has. Which one an agent gives also depends on what it had heard of the
 * pod by then, and on how many ports were free.
 */
export function asGiven(attachments: readonly Attachment[]): (object: ApiObject) => ApiObject {
  const given = new Map(attachments.map((attachment) => [podOf(attachment), isStanding(nodeEndOf(attachment))]));
  return (object) => {
    const { namespace, name } = object.metadata;
    const standing = given.get(`${namespace}/${name}`);
    if (standing === undefined) return object;
    const { 'kubernetes.io/ingress-bandwidth': _, ...others } = object.metadata.annotations ?? {};
    return { ...object, metadata: { ...object.metadata, annotations: standing ? others : { ...others, ...asksForPair } } };
  };
}

function podOf({ args }: Attachment): string {
  const named = new Map(args);
  return `${named.get('K8S_POD_NAMESPACE')}/${named.get('K8S_POD_NAME')}`;
}
