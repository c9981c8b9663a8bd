export declare const debianOf: Readonly<Record<string, string>>;
export declare function ovsEnvironment(version: string): Promise<Readonly<Record<string, string>>>;
