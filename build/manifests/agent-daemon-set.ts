import type { DaemonSet } from 'kubernetes-types/apps/v1.d.ts';
import type { Container, EnvVar, Probe, Volume, VolumeMount } from 'kubernetes-types/core/v1.d.ts';
import { defaultPaths } from '../../src/api/default-paths.ts';
import { agentName } from './access.ts';
import { agentConfigKey, agentConfigPath, configName, conflistKey } from './configuration.ts';
import { agentGrants, type Grants, insideCniBin, insideCniConf, installGrants } from './grants.ts';
import { type ManifestOptions, namespace } from './options.ts';
import { type Note, type Part, pooledLabels } from './part.ts';
import { mountsOf, notesOfCapabilities, notesOfVolumes, podSpec, securityContext, volumesOf } from './pods.ts';
import { placement, pooledName } from './pool.ts';

function configVolume(options: ManifestOptions): Volume {
  const items = [agentConfigKey, conflistKey].map((key) => ({ key, path: key }));
  return { name: 'config', configMap: { name: configName(options), defaultMode: 0o600, items } };
}
/** An agent that is ready for this time counts as rolled out; one that is not stops the roll-out at its node. */
const MIN_READY_SECONDS = 60;
const configMount: VolumeMount = { name: 'config', mountPath: '/etc/seine', readOnly: true };
const stateName = 'var-lib-seine';
/** Folder of `seinectl collect`'s archives, because the image's own file system is read-only. */
const scratch: Volume = { name: 'tmp', emptyDir: {} };

const nodeName: EnvVar = { name: 'NODE_NAME', valueFrom: { fieldRef: { fieldPath: 'spec.nodeName' } } };

/** Path in the image; see build/images/collect.mjs. */
const plugin = '/opt/seine/cni/seine';

/** Probes over the agent's socket, not a port: a port may be disabled, and any process of the node may bind it first. */
function probe(what: 'livez' | 'readyz/rollout', { agent }: ManifestOptions): Probe {
  const { apiSocket = defaultPaths.apiSocket } = agent;
  return { exec: { command: [plugin, '--probe', what, String(apiSocket)] }, timeoutSeconds: 5 };
}

export function agentDaemonSet(options: ManifestOptions): Part {
  const install = installGrants(options);
  const grants = agentGrants(options);
  const volumes = [...volumesOf(...grants.paths), configVolume(options), scratch];
  const name = pooledName(agentName, options.pool);
  const labels = pooledLabels(agentName, options.pool);
  const object: DaemonSet = {
    apiVersion: 'apps/v1',
    kind: 'DaemonSet',
    metadata: { name, namespace, labels },
    spec: {
      selector: { matchLabels: { app: name } },
      updateStrategy: { type: 'RollingUpdate', rollingUpdate: { maxUnavailable: options.size.maxUnavailable } },
      minReadySeconds: MIN_READY_SECONDS,
      template: {
        metadata: { labels },
        spec: podSpec({
          serviceAccountName: agentName,
          affinity: placement('agent', options.pool, options.leftToPools),
          hostPID: true,
          terminationGracePeriodSeconds: 15,
          initContainers: [installContainer(options, install)],
          containers: [agentContainer(options)],
          volumes,
        }),
      },
    },
  };
  return {
    object,
    about: 'The agent. While it restarts, traffic continues, and pods that start wait for it.',
    notes: [...notes, ...notesOfCapabilities(agentAt, grants), ...notesOfVolumes(volumes, [...install.paths, ...grants.paths])],
  };
}

function installContainer(options: ManifestOptions, install: Grants): Container {
  const state = mountsOf(agentGrants(options)).filter(({ name }) => name === stateName);
  return {
    name: 'install-cni',
    image: options.agentImage,
    imagePullPolicy: options.imagePullPolicy,
    command: ['install-cni', 'install'],
    args: ['--bin-dir', insideCniBin, '--conf-dir', insideCniConf, '--conflist', `/etc/seine/${conflistKey}`],
    resources: { requests: { cpu: '10m', memory: '50Mi' } },
    securityContext: securityContext(install),
    volumeMounts: [...mountsOf(install), ...state, configMount],
  };
}

function agentContainer(options: ManifestOptions): Container {
  return {
    name: 'agent',
    image: options.agentImage,
    imagePullPolicy: options.imagePullPolicy,
    command: ['seine-agent'],
    args: ['--config', agentConfigPath],
    env: [nodeName],
    resources: { requests: { cpu: '100m', memory: options.size.agentMemory }, limits: { memory: options.size.agentMemoryLimit } },
    securityContext: securityContext(agentGrants(options)),
    volumeMounts: [...mountsOf(agentGrants(options)), configMount, { name: scratch.name, mountPath: '/tmp' }],
    // `kubectl describe pod` then shows errors of a configuration, too.
    terminationMessagePolicy: 'FallbackToLogsOnError',
    startupProbe: { ...probe('livez', options), periodSeconds: 2, failureThreshold: 60 },
    livenessProbe: { ...probe('livez', options), periodSeconds: 10, failureThreshold: 6 },
    readinessProbe: { ...probe('readyz/rollout', options), periodSeconds: 5 },
  };
}

const podAt = ['spec', 'template', 'spec'];
const agentAt = [...podAt, 'containers', 0];

const notes: readonly Note[] = [
  [
    [...podAt, 'affinity'],
    'Agents of pools run on nodes with the label of the pool, all others on nodes without it (docs/installation/upgrade.md#pools).',
  ],
  [[...podAt, 'hostPID'], 'The CNI socket identifies callers by process, and some runtimes name network namespaces by process.'],
  [[...podAt, 'initContainers', 0], 'Installs the plugin, then its configuration, in the folders of the runtime, each by renaming.'],
  [
    [...agentAt, 'resources'],
    'The agent needs about 20 KiB for a Service with ten endpoints. The limit is over four times its memory at rest with ten thousand of them (docs/feature-matrix.md).',
  ],
  [[...agentAt, 'startupProbe'], 'Queries the socket of the agent; a port could belong to another process.'],
  [[...agentAt, 'livenessProbe'], 'Succeeds while the event loop runs. A restart does not fix other problems.'],
];
