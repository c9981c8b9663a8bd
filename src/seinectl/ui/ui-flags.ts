export interface UiFlags {
  readonly kubeconfig?: string;
  readonly context?: string;
  /** Support bundles instead of a cluster. */
  readonly bundle?: readonly string[];
  readonly agentNamespace: string;
  readonly port: number;
  readonly open: boolean;
}
