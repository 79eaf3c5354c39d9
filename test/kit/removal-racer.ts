import { existsSync, mkdirSync, renameSync, symlinkSync, writeFileSync } from 'node:fs'

// A program that goes on in its folder while the host removes it: folders become links to a place outside the moment that they were
// looked at. It stands in its folder, so that renaming that one away does not keep it out.
const [folder, outside] = process.argv.slice(2) as [string, string]
process.chdir(folder)
const names = Array.from({ length: 20 }, (_, index) => `d${index}`)
for (const name of names) {
  mkdirSync(name)
  for (let file = 0; file < 20; file++) writeFileSync(`${name}/${file}`, '')
}
symlinkSync(outside, 'link')

process.send?.('racing')
process.once('message', () => {
  for (const end = Date.now() + 5000; Date.now() < end; )
    for (const name of names) {
      if (!existsSync(`${name}/0`) || existsSync(`${name}/19`)) {
        try {
          renameSync(name, `${name}-aside`)
          symlinkSync(outside, name)
        } catch {
          // the other side was faster
        }
      }
    }
})
