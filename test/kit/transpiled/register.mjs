// Loads the sources as `./berth test` has transpiled them (cli/test/transpiled-sources.ts), in place of `--import=tsx`.
import { register } from 'node:module'

process.setSourceMapsEnabled(true)
register('./hooks.mjs', import.meta.url)
