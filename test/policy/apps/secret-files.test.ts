import test from 'ava'
import { permits, roles } from '../../../policy/accounts/permissions.ts'
import { filePath, newFilePath } from '../../../policy/apps/app-paths.ts'
import { isConfigFile, isSecretFile } from '../../../policy/apps/secret-files.ts'

const more = ['my.app']

test('secret files are those of the contract, in any folder; the configuration file only at the root', t => {
  const secret = ['.env', '.env.local', '.env.a.b', 'a/.env', 'a/.env/b', '.config', '.config/x', 'a/b/.config/c']
  for (const path of [...secret, 'berth.app', 'berth.config', 'my.app']) t.true(isSecretFile(path, more), path)
  const open = [
    'env',
    '.envrc',
    '.environment',
    'a.env',
    'config',
    '.configs',
    '',
    'a/berth.app',
    'a/my.app',
    'berth.app/x',
  ]
  for (const path of open) t.false(isSecretFile(path, more), path)
  t.false(isSecretFile('my.app', []))
  t.true(isConfigFile('my.app', more))
  t.false(isConfigFile('.env', more))
})

test('admins and owners see them', t => {
  t.deepEqual(
    roles.filter(role => permits(role, 'secret_files')),
    ['admin', 'owner'],
  )
})

test('a path is relative to the application, and never leads out of it', t => {
  const paths = { '/': '', '': '', './a//b/': 'a/b', '/a/./b': 'a/b', 'a\\b': 'a\\b', 'a\nb': 'a\nb', '...': '...' }
  for (const [text, path] of Object.entries(paths)) t.is(filePath(text), path)
  const wrong = ['..', 'a/../b', '/../a', 'a/..', 'a\0', '\ud800', 'x'.repeat(256), 'ü'.repeat(128), 'a/'.repeat(129)]
  for (const text of [...wrong, `${'x'.repeat(200)}/`.repeat(21)]) t.is(filePath(text), null, text.slice(0, 20))
})

test('a new file must have a name that other programs can handle', t => {
  t.is(newFilePath('/a/b c/ü.txt'), 'a/b c/ü.txt')
  for (const text of ['', '/', './', 'a\\b', 'a\nb', 'a\u007f', '..', 'a/../b']) t.is(newFilePath(text), null, text)
})
