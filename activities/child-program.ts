import { extname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type ChildProcess, type StdioOptions, startProcess } from '../lib/child-process.ts'

// TypeScript in tests, JavaScript beside it once compiled.
const extension = extname(import.meta.url)
const loader = extension === '.ts' ? ['--import', import.meta.resolve('tsx')] : []

/** Starts `<name>.child`, which lies in this folder, with nothing of ours: an empty environment, only the descriptors given. */
export function startChild(name: string, stdio: StdioOptions, nodeArguments: readonly string[] = []): ChildProcess {
  const program = fileURLToPath(new URL(`./${name}.child${extension}`, import.meta.url))
  return startProcess(process.execPath, [...nodeArguments, ...loader, program], { cwd: '/', stdio })
}

/**
 * For a child: from here on with the rights of the application only. The folders must be the application's already: root would
 * else be led, by a link further up, to a folder of somebody else.
 */
export function becomeOwner(owner: { uid: number; gid: number } | null, folders: readonly { uid: number }[]): void {
  if (owner === null || process.getuid!() !== 0) return
  for (const { uid } of folders)
    if (uid !== owner.uid) throw new Error(`A folder to write to does not belong to user ${owner.uid}.`)
  process.setgroups!([])
  process.setgid!(owner.gid)
  process.setuid!(owner.uid)
}
