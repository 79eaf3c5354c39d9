import {
  chmodSync,
  chownSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import type { ExecutionContext } from 'ava'

/** A folder of its own for one test, removed after it. */
export function ownFolder(t: ExecutionContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'berth-test-'))
  chmodSync(folder, 0o755)
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

/** Path -> content; `null` = an empty folder, `{ link }` = a symbolic link, `{ text, mode }` = a file with a mode. */
export type Contents = Record<string, string | null | { link: string } | { text: string; mode: number }>

export function lay(folder: string, contents: Contents): void {
  mkdirSync(folder, { recursive: true })
  for (const [name, content] of Object.entries(contents)) {
    const path = join(folder, name)
    mkdirSync(content === null ? path : dirname(path), { recursive: true })
    if (content === null) continue
    if (typeof content === 'string') writeFileSync(path, content, { mode: 0o644 })
    else if ('link' in content) symlinkSync(content.link, path)
    else {
      writeFileSync(path, content.text)
      chmodSync(path, content.mode)
    }
  }
}

/** Everything in a folder as text that compares: kind, mode and content by path. Names are bytes. */
export function seen(folder: string): Record<string, string> {
  const found: Record<string, string> = {}
  const enter = (below: Buffer, name: string) => {
    const stats = lstatSync(below)
    const mode = (stats.mode & 0o777).toString(8)
    if (stats.isSymbolicLink()) found[name] = `link ${readlinkSync(below)}`
    else if (stats.isFile()) found[name] = `file ${mode} ${readFileSync(below, 'latin1')}`
    else if (!stats.isDirectory()) found[name] = 'other'
    else {
      found[name] = `folder ${mode}`
      for (const inner of readdirSync(below, 'latin1').sort())
        enter(Buffer.concat([below, Buffer.from(`/${inner}`, 'latin1')]), `${name}/${inner}`)
    }
  }
  for (const inner of readdirSync(folder, 'latin1').sort())
    enter(Buffer.concat([Buffer.from(`${folder}/`), Buffer.from(inner, 'latin1')]), inner)
  return found
}

/** Gives a file, or a folder and everything in it, to a user. */
export function give(folder: string, uid: number): void {
  const inner = lstatSync(folder).isDirectory() ? readdirSync(folder, { recursive: true, encoding: 'latin1' }) : []
  for (const name of ['', ...inner]) {
    const path = Buffer.concat([Buffer.from(folder), Buffer.from(name ? `/${name}` : '', 'latin1')])
    if (!lstatSync(path).isSymbolicLink()) chownSync(path, uid, uid)
  }
}
