import type { Capabilities, Container, PodSpec, SecurityContext, Toleration, Volume, VolumeMount } from 'kubernetes-types/core/v1.d.ts';
import type { Grants, HostPath } from './grants.ts';
import type { Note } from './part.ts';

/** A node without its network is not ready, and may have any taint for that: Seine tolerates all of them. */
const everywhere: Toleration[] = [{ operator: 'Exists' }];

/** The common part of both DaemonSets' pods. */
export function podSpec(containers: Pick<PodSpec, 'containers' | 'initContainers' | 'volumes'> & Partial<PodSpec>): PodSpec {
  return {
    priorityClassName: 'system-node-critical',
    tolerations: everywhere,
    nodeSelector: { 'kubernetes.io/os': 'linux' },
    hostNetwork: true,
    dnsPolicy: 'Default',
    ...containers,
  };
}

/**
 * Contains no AppArmor profile: with AppArmor, every runtime applies its default, which is enough; without, a kubelet rejects a pod that
 * names one (docs/installation/requirements.md#apparmor).
 */
export function securityContext({ capabilities }: Grants): SecurityContext {
  const granted: Capabilities = { drop: ['ALL'], ...(capabilities.length === 0 ? {} : { add: capabilities.map(({ name }) => name) }) };
  return {
    privileged: false,
    allowPrivilegeEscalation: false,
    readOnlyRootFilesystem: true,
    runAsUser: 0,
    capabilities: granted,
    seccompProfile: { type: 'RuntimeDefault' },
    seLinuxOptions: { type: 'spc_t' },
  };
}

export function mountsOf({ paths }: Grants): VolumeMount[] {
  return paths.map(({ name, path, inside = path, readOnly, propagation }) => ({
    name,
    mountPath: inside,
    ...(readOnly ? { readOnly } : {}),
    ...(propagation ? { mountPropagation: propagation } : {}),
  }));
}

export function volumesOf(...paths: readonly HostPath[]): Volume[] {
  const first = new Map(paths.map((row) => [row.name, row]));
  return [...first.values()].map(({ name, path, type }) => ({ name, hostPath: { path, type } }));
}

/** Comments on each capability, and on each path by the volume that mounts it. */
export function notesOfCapabilities(at: readonly (string | number)[], { capabilities }: Grants): Note[] {
  return capabilities.map(({ why }, index) => [[...at, 'securityContext', 'capabilities', 'add', index], why] as const);
}

export function notesOfVolumes(volumes: readonly Volume[], paths: readonly HostPath[]): Note[] {
  return volumes.flatMap(({ name }, index) => {
    const path = paths.find((row) => row.name === name);
    return path === undefined ? [] : [[['spec', 'template', 'spec', 'volumes', index], path.why] as const];
  });
}

export type NamedContainer = Container & { readonly name: string };
