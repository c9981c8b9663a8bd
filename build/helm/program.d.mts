export declare function helmVersion(): string;
export declare function builtHelm(): Promise<string>;
