import type { DaemonSet } from 'kubernetes-types/apps/v1.d.ts';
import { agentGrants, type Grants, insideCniBin, insideCniConf, installGrants } from './grants.ts';
import { type ManifestOptions, namespace } from './options.ts';
import { labelsOf, type Part } from './part.ts';
import { mountsOf, podSpec, securityContext, volumesOf } from './pods.ts';

const app = 'seine-cleanup';
/** Retries until it succeeds: a node that still has pods is cleaned when they are deleted. */
const script = `until seinectl node cleanup --yes --cni-bin-dir ${insideCniBin} --cni-conf-dir ${insideCniConf}; do sleep 10; done; exec sleep infinity`;

/** Succeeds when the script has become `sleep`, that is, the node is clean. So `kubectl rollout status` ends when all nodes are. */
const isClean = 'read -r name < /proc/1/comm && [ "$name" = sleep ]';

/** Removes Seine from every node: users apply it by `docs/installation/uninstall.md` after the agents are deleted. */
export function cleanupDaemonSet(options: ManifestOptions): Part {
  const grants: Grants = {
    ...agentGrants(options),
    paths: [...installGrants(options).paths, ...agentGrants(options).paths.filter(({ readOnly }) => !readOnly)],
  };
  const object: DaemonSet = {
    apiVersion: 'apps/v1',
    kind: 'DaemonSet',
    metadata: { name: app, namespace, labels: labelsOf(app) },
    spec: {
      selector: { matchLabels: { app } },
      template: {
        metadata: { labels: labelsOf(app) },
        spec: podSpec({
          automountServiceAccountToken: false,
          terminationGracePeriodSeconds: 1,
          containers: [
            {
              name: 'cleanup',
              image: options.agentImage,
              imagePullPolicy: options.imagePullPolicy,
              command: ['sh', '-c', script],
              resources: { requests: { cpu: '10m', memory: '50Mi' } },
              securityContext: securityContext(grants),
              volumeMounts: mountsOf(grants),
              readinessProbe: { exec: { command: ['sh', '-c', isClean] }, periodSeconds: 5, timeoutSeconds: 5 },
            },
          ],
          volumes: volumesOf(...grants.paths),
        }),
      },
    },
  };
  return {
    object,
    about:
      'Removes everything of Seine from the nodes. Delete DaemonSet seine-agent first, and keep seine-ovs until the end: docs/installation/uninstall.md.\nA pod is ready when its node is clean.',
  };
}
