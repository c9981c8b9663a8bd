export declare function kubernetesVersion(): string;
export declare function programFolder(environment?: { readonly XDG_CACHE_HOME?: string | undefined }): string;
interface Program {
  readonly name: string;
  readonly folder: string;
  readonly path: string;
  readonly args: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
}
interface Kept {
  readonly folder: string;
  readonly programs: readonly Program[];
}
export declare const programs: readonly Program[];
export declare const controlPlanePrograms: readonly string[];
export declare function otherControlPlanes(): string[];
export declare function controlPlaneOf(version: string): Kept;
export declare const containerdVersions: readonly string[];
export declare function containerdOf(version: string): Kept;
export declare function crictl(): Kept;
export declare function runc(): Kept;
export declare function kubeadmOf(version: string): Kept;
export declare function kubernetesVersionBefore(): string;
