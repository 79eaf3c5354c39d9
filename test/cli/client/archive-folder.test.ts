import { mkdirSync, mkdtempSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import test from 'ava'
import { type Entry, open, type ZipFile } from 'yauzl'
import { archiveFolder } from '../../../cli/client/archive-folder.ts'

function folderWith(files: Record<string, string>): string {
  const folder = mkdtempSync(join(tmpdir(), 'berth-zip-'))
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true })
    writeFileSync(join(folder, path), text)
  }
  return folder
}

async function namesIn(path: string): Promise<string[]> {
  const zip = (await promisify(open as never)(path, { lazyEntries: false } as never)) as unknown as ZipFile
  const names: string[] = []
  zip.on('entry', (entry: Entry) => names.push(entry.fileName))
  await new Promise((resolve, reject) => zip.once('end', resolve).once('error', reject))
  return names
}

test('a folder is zipped by the rules of its .berthignore, without what the server drops anyway', async t => {
  const folder = folderWith({
    'berth.app': 'x',
    'src/main.js': 'x',
    'src/main.test.js': 'x',
    'secret/key.pem': 'x',
    'kept.log': 'x',
    'other.log': 'x',
    'node_modules/a/index.js': 'x',
    '.git/HEAD': 'x',
    '.env': 'x',
    '.berthignore': '# tests stay here\n*.test.js\nsecret/\n*.log\n!kept.log\n',
  })
  symlinkSync('src/main.js', join(folder, 'link.js'))
  symlinkSync('nowhere', join(folder, 'dangling'))
  const zip = join(mkdtempSync(join(tmpdir(), 'berth-zip-')), 'out.zip')
  const names = ['.berthignore', '.env', 'berth.app', 'kept.log', 'link.js', 'src/main.js']
  t.is(await archiveFolder(folder, zip), names.length)
  t.deepEqual((await namesIn(zip)).sort(), names)
})
