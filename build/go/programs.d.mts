export declare const programNames: readonly string[];
export declare function programVersion(name: string): string;
export declare function programPath(name: string, environment?: { readonly XDG_CACHE_HOME?: string | undefined }): string;
export declare function builtProgram(name: string): Promise<string>;
