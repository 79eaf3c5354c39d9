import { readFileSync, writeFileSync } from 'node:fs'
import { createRequire, SourceMap } from 'node:module'
import { basename, dirname } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { Script } from 'node:vm'
import { crc32 } from 'node:zlib'

/** What a bundle of scripts/bundle.mjs exports: its program, and the loading of modules that it otherwise loads on demand. */
interface Program {
  main(): Promise<void>
  ahead(): Promise<unknown>
}

/**
 * Runs a program from its bundle, as V8 has compiled it before (`recordProgram`). Without a record of this bundle, by this version of Node, V8
 * compiles it anew.
 */
export async function runProgram(bundle: URL): Promise<void> {
  const path = fileURLToPath(bundle)
  mapStacks(path)
  const text = readFileSync(path)
  await load(path, scriptOf(path, text, recorded(path, text))).main()
}

/** Records what V8 makes of a bundle, next to it. Its modules are loaded, but its program does not run. */
export async function recordProgram(bundle: URL): Promise<void> {
  const path = fileURLToPath(bundle)
  const text = readFileSync(path)
  const script = scriptOf(path, text)
  await load(path, script).ahead()
  const data = script.createCachedData()
  const checksum = Buffer.alloc(checksumBytes)
  checksum.writeUInt32LE(checksumOf(text, data))
  writeFileSync(recordOf(path), Buffer.concat([checksum, data]))
}

/** V8 uses what it has made with the same flags of its memory; Node's own flags do not matter to it. */
const recordOf = (path: string): string => {
  const flags = process.execArgv.filter(flag => /^--(heap|max)-/.test(flag))
  return `${path}.${process.version}-${process.arch}${flags.join('')}.compiled`
}

const checksumBytes = 4

/** V8 compares only its version and lengths: a damaged record, or one of another text, would run. */
const checksumOf = (text: Buffer, data: Buffer): number => crc32(data, crc32(text))

function recorded(path: string, text: Buffer): Buffer | undefined {
  try {
    const record = readFileSync(recordOf(path))
    const data = record.subarray(checksumBytes)
    return record.readUInt32LE() === checksumOf(text, data) ? data : undefined
  } catch {
    return undefined // not recorded for these flags: V8 compiles what the program uses
  }
}

/** Its name is that of its file alone: V8 keeps the one of the record, which was made in a folder that has since been renamed. */
function scriptOf(path: string, text: Buffer, cachedData?: Buffer): Script {
  return new Script(text.toString('latin1'), { filename: basename(path), cachedData })
}

function load(path: string, script: Script): Program {
  const module = { exports: {} }
  const nodeRequire = createRequire(path)
  // What the sources import by its address, migrations for example.
  const require = (id: string) => nodeRequire(id.startsWith('file:') ? fileURLToPath(id) : id)
  script.runInThisContext()(module.exports, Object.assign(require, nodeRequire), module, path, dirname(path))
  return module.exports as Program
}

/** Names lines of the sources in stacks of errors. Node would measure each line of the bundle at every start; here the first stack reads the map. */
function mapStacks(path: string): void {
  process.setSourceMapsEnabled(false)
  const name = basename(path)
  let map: SourceMap | null | undefined
  const inSource = (frame: NodeJS.CallSite): string => {
    const text = String(frame)
    if (frame.getFileName() !== name) return text
    if (map === undefined) map = mapOf(path)
    const [line, column] = [frame.getLineNumber() ?? 0, frame.getColumnNumber() ?? 0]
    const entry = map?.findEntry(line - 1, column - 1)
    if (!entry || !('originalSource' in entry) || !entry.originalSource) return text
    const source = fileURLToPath(new URL(entry.originalSource, pathToFileURL(path)))
    return text.replace(`${name}:${line}:${column}`, `${source}:${entry.originalLine + 1}:${entry.originalColumn + 1}`)
  }
  Error.prepareStackTrace = (error, frames) =>
    [Error.prototype.toString.call(error), ...frames.map(frame => `\n    at ${inSource(frame)}`)].join('')
}

function mapOf(path: string): SourceMap | null {
  try {
    return new SourceMap(JSON.parse(readFileSync(`${path}.map`, 'utf8')))
  } catch {
    return null // a child may be allowed to read nothing, and an error in place of a stack would hide what has happened
  }
}
