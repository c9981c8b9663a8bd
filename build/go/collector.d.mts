export declare function builtCollector(environment?: { readonly XDG_CACHE_HOME?: string | undefined }): Promise<string>;
