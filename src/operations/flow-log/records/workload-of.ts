/** Characters of random suffixes in names that Kubernetes generates. Source: k8s.io/apimachinery/pkg/util/rand `alphanums`. */
const safe = '[bcdfghjklmnpqrstvwxz2456789]';
const ofReplicaSet = new RegExp(`^(.+)-${safe}{6,10}-${safe}{5}$`);
const generated = new RegExp(`^(.+)-${safe}{5}$`);
const ofIndexedJob = new RegExp(`^(.+)-\\d{1,10}-${safe}{5}$`);
const ordinal = /^(.+)-\d{1,10}$/;

/** Name of a pod, with the label by which its ReplicaSet names it, if that is known. */
interface NamedPod {
  readonly name: string;
  /** Label `pod-template-hash`. */
  readonly templateHash?: string;
}

/**
 * Returns the name of the controller of a pod, as far as the pod's name shows it: of its Deployment, DaemonSet, Job or StatefulSet. A pod
 * without a controller is its own workload. Pure.
 */
export function workloadOf({ name, templateHash }: NamedPod): string {
  if (templateHash !== undefined) {
    const at = name.lastIndexOf(`-${templateHash}-`);
    if (at > 0) return name.slice(0, at);
  }
  for (const shape of [ofReplicaSet, ofIndexedJob, generated, ordinal]) {
    const workload = shape.exec(name)?.[1];
    if (workload !== undefined) return workload;
  }
  return name;
}
