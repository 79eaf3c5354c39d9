import { rename, writeFile } from 'node:fs/promises'

/** Replaces a file that only its owner reads, whole or not at all. */
export async function replaceFile(path: string, text: string): Promise<void> {
  await writeFile(`${path}.new`, text, { mode: 0o600, flush: true })
  await rename(`${path}.new`, path)
}
