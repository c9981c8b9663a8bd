export interface UiFlags {
  readonly kubeconfig?: string;
  readonly context?: string;
  readonly agentNamespace: string;
  readonly port: number;
  readonly open: boolean;
}
