import type { KubeApi } from '../kube/kube-api.ts';
import type { PodStatusLine } from './status.ts';

/** Runs the pods of a lab's nodes: the lab's own kubelets, or real ones. */
export interface PodRunners {
  readonly running: readonly PodStatusLine[];
  /** Starts it on every node; pods run from then on, until the signal. */
  start(api: KubeApi, pluginFolders: readonly string[], signal: AbortSignal): Promise<void>;
  /** Reports whether the node takes pods. */
  isReady(node: string): boolean;
  /** Runs CHECK of the plugin chain. @throws SeineError `REFUSED` naming the difference, `INVALID_INPUT` if no such pod runs */
  check(namespace: string, name: string, signal: AbortSignal): Promise<void>;
  /** Resolves when everything in this process has ended, after the signal. */
  ended(): Promise<void>;
}
