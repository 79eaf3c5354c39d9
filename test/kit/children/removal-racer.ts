import { mkdirSync, renameSync, statSync, symlinkSync, writeFileSync } from 'node:fs'

// A program that keeps running in its folder while the host removes it: a folder becomes a link to a place outside the moment that the first
// thing in it is deleted, while most is still to be removed. It stands in its folder, so that renaming that one away does not keep it out.
const [folder, outside] = process.argv.slice(2) as [string, string]
process.chdir(folder)
const names = ['a', 'b']
const filesOfEach = 1500
for (const name of names) {
  mkdirSync(name)
  for (let file = 0; file < filesOfEach; file++) writeFileSync(`${name}/${file}`, '')
}
const changedAt = (name: string) => statSync(name, { bigint: true, throwIfNoEntry: false })?.mtimeNs
const before = new Map(names.map(name => [name, changedAt(name)]))

process.send?.(filesOfEach)
process.once('message', () => {
  for (const end = Date.now() + 60_000; Date.now() < end && before.size > 0; )
    for (const [name, at] of before) {
      if (changedAt(name) === at) continue
      before.delete(name)
      try {
        renameSync(name, `${name}-aside`)
        symlinkSync(outside, name)
      } catch {
        // the other side was faster
      }
    }
})
