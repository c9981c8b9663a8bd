export declare function withEmulation<T>(work: () => T | Promise<T>): Promise<T>;
