#!/usr/bin/env node
import { launch } from './launch.mjs';

await launch('seinectl.mjs', 'src/seinectl/main.ts');
