import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { ApiObject } from './api.ts';

/** Kinds of interfaces for pods: a veth pair each, a macvlan above a pre-plugged port, or half of each. */
export const podInterfaceKinds = ['veth', 'standing', 'half'] as const;
export type PodInterfaces = (typeof podInterfaceKinds)[number];

/** The runtime's cache of an ADD. */
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

/** Value of the agent's key. With `auto`, a pod that declares that another plugin limits its bandwidth gets a pair. */
export const agentKey: Readonly<Record<PodInterfaces, string>> = { veth: 'veth', standing: 'standing', half: 'auto' };
/** Not a quantity, so that nothing limits it. */
const asksForPair = { 'kubernetes.io/ingress-bandwidth': 'none' };

/** Some of the initial pods, and every second of the later ones. */
const standing = /^client$|^db-0$|[13579]$/;

/** Annotations of a pod, for mixed kinds. */
export function annotationsOf(name: string): Readonly<Record<string, string>> {
  return standing.test(name) ? {} : asksForPair;
}

/** Attachments of the pods of a node, from its runtime's cache. */
export function attachmentsOf(rundir: string): readonly Attachment[] {
  const folder = join(rundir, 'cni-cache');
  return readdirSync(folder)
    .filter((file) => file.endsWith('.json'))
    .flatMap((file) => {
      try {
        return [JSON.parse(readFileSync(join(folder, file), 'utf8')) as Attachment];
      } catch {
        return []; // just deleted
      }
    });
}

/** The node's end of a pod's interface, from the result of ADD. */
export function nodeEndOf({ result }: Pick<Attachment, 'result'>): string {
  return result.interfaces.find(({ sandbox }) => sandbox === undefined || sandbox === '')?.name ?? '';
}

export function isStanding(nodeEnd: string): boolean {
  return /^sp-\d+$/.test(nodeEnd);
}

/**
 * A pod in the form that a fresh agent sees: it requests the kind of interface that it has. The agent's choice also depends on what it knew
 * of the pod at ADD, and on the number of free ports.
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
