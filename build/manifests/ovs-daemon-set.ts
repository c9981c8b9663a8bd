import type { DaemonSet } from 'kubernetes-types/apps/v1.d.ts';
import type { Volume } from 'kubernetes-types/core/v1.d.ts';
import { ovsGrants } from './grants.ts';
import { type ManifestOptions, namespace } from './options.ts';
import { type Part, pooledLabels } from './part.ts';
import { mountsOf, notesOfCapabilities, notesOfVolumes, podSpec, securityContext, volumesOf } from './pods.ts';
import { placement, pooledName } from './pool.ts';

const app = 'seine-ovs';
/** Folder for ovsdb-server's first file; the image's own file system is read-only. */
const scratch: Volume = { name: 'tmp', emptyDir: {} };

export function ovsDaemonSet(options: ManifestOptions): Part {
  const grants = ovsGrants(options);
  const volumes = [...volumesOf(...grants.paths), scratch];
  const name = pooledName(app, options.pool);
  const labels = pooledLabels(app, options.pool);
  const object: DaemonSet = {
    apiVersion: 'apps/v1',
    kind: 'DaemonSet',
    metadata: { name, namespace, labels },
    spec: {
      selector: { matchLabels: { app: name } },
      updateStrategy: { type: 'OnDelete' },
      template: {
        metadata: { labels },
        spec: podSpec({
          automountServiceAccountToken: false,
          affinity: placement('ovs', options.pool, options.leftToPools),
          terminationGracePeriodSeconds: 30,
          containers: [
            {
              name: 'ovs',
              image: options.ovsImage,
              imagePullPolicy: options.imagePullPolicy,
              resources: { requests: { cpu: '100m', memory: options.size.ovsMemory } },
              securityContext: securityContext(grants),
              volumeMounts: [...mountsOf(grants), { name: scratch.name, mountPath: '/tmp' }],
              livenessProbe: { exec: { command: ['ovs-start', 'alive'] }, periodSeconds: 30, timeoutSeconds: 15, failureThreshold: 4 },
              readinessProbe: { exec: { command: ['ovs-start', 'alive'] }, periodSeconds: 20, timeoutSeconds: 15 },
            },
          ],
          volumes,
        }),
      },
    },
  };
  const container = ['spec', 'template', 'spec', 'containers', 0];
  return {
    object,
    about: 'Open vSwitch. It forwards packets, also while the agent restarts.',
    notes: [
      [['spec', 'template', 'spec', 'affinity'], 'Like that of the agent, by another label.'],
      [
        ['spec', 'updateStrategy'],
        'A restart of Open vSwitch loses packets: delete the pods yourself, node by node (docs/installation/upgrade.md).',
      ],
      [[...container, 'resources'], 'No memory limit: an OOM kill would interrupt all pods of the node. Flows take about 1 KiB each.'],
      [[...container, 'livenessProbe'], 'Slow, for the same reason.'],
      ...notesOfCapabilities(container, grants),
      ...notesOfVolumes(volumes, grants.paths),
    ],
  };
}
