import { mkdirSync, renameSync, rmSync, symlinkSync } from 'node:fs'

// An application that swaps folders for links to a place outside, as fast as it can.
const [first, second, outside] = process.argv.slice(2) as [string, string, string]

function quietly(...steps: (() => void)[]): void {
  for (const step of steps)
    try {
      step()
    } catch {
      // the other side was faster
    }
}

function swap(): void {
  for (const folder of [first, second])
    quietly(
      () => rmSync(`${folder}-aside`, { recursive: true, force: true }),
      () => renameSync(folder, `${folder}-aside`),
      () => symlinkSync(outside, folder),
      () => rmSync(folder, { force: true }),
      () => mkdirSync(folder),
    )
  setTimeout(swap, 1)
}

swap()
process.send?.('racing')
