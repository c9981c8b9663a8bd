export declare function kubernetesVersion(): string;
export declare function programFolder(environment?: { readonly XDG_CACHE_HOME?: string | undefined }): string;
export declare const programs: readonly {
  readonly name: string;
  readonly folder: string;
  readonly path: string;
  readonly args: readonly string[];
}[];
