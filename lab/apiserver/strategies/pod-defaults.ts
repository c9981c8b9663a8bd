import type { Container, PodSpec, Probe } from 'kubernetes-types/core/v1.d.ts';
import { ensureObject, type JsonRecord } from '../object/json.ts';

/** Defaults of a pod template, from the API server (a pod has a few more). */
export function podTemplateDefaults(spec: JsonRecord): void {
  const pod = spec as Partial<PodSpec>;
  pod.restartPolicy ??= 'Always';
  pod.dnsPolicy ??= 'ClusterFirst';
  pod.terminationGracePeriodSeconds ??= 30;
  pod.schedulerName ??= 'default-scheduler';
  pod.securityContext ??= {};
  for (const container of [...(pod.containers ?? []), ...(pod.initContainers ?? [])]) containerDefaults(container, pod);
}

export function podDefaults(spec: JsonRecord): void {
  podTemplateDefaults(spec);
  const pod = spec as Partial<PodSpec>;
  pod.enableServiceLinks ??= true;
  pod.preemptionPolicy ??= 'PreemptLowerPriority';
  pod.priority ??= 0;
  const account = pod.serviceAccountName ?? pod.serviceAccount ?? 'default';
  pod.serviceAccountName ??= account;
  pod.serviceAccount ??= account;
  pod.tolerations ??= [];
  for (const key of ['node.kubernetes.io/not-ready', 'node.kubernetes.io/unreachable']) {
    const tolerated = pod.tolerations.some(
      (one) => (one.key === key || one.key === undefined) && (one.effect === 'NoExecute' || one.effect === undefined),
    );
    if (!tolerated) pod.tolerations.push({ key, operator: 'Exists', effect: 'NoExecute', tolerationSeconds: 300 });
  }
}

function containerDefaults(container: Container, { hostNetwork }: Partial<PodSpec>): void {
  container.terminationMessagePath ??= '/dev/termination-log';
  container.terminationMessagePolicy ??= 'File';
  container.resources ??= {};
  if (container.image) container.imagePullPolicy ??= /(:latest|\/[^:/]+|^[^:/]+)$/.test(container.image) ? 'Always' : 'IfNotPresent';
  for (const port of container.ports ?? []) {
    port.protocol ??= 'TCP';
    if (hostNetwork === true) port.hostPort ??= port.containerPort;
  }
  for (const probe of [container.livenessProbe, container.readinessProbe, container.startupProbe])
    if (probe !== undefined) probeDefaults(probe);
}

function probeDefaults(probe: Probe): void {
  probe.timeoutSeconds ??= 1;
  probe.periodSeconds ??= 10;
  probe.successThreshold ??= 1;
  probe.failureThreshold ??= 3;
  if (probe.httpGet !== undefined) {
    const get = ensureObject(probe as JsonRecord, 'httpGet');
    get['path'] ??= '/';
    get['scheme'] ??= 'HTTP';
  }
}
