import test from 'ava'
import {
  gitAddress,
  hostAndPort,
  isBranchName,
  isOpened,
  mayKeepToken,
  tokenUser,
} from '../../../policy/git/git-source.ts'

test('a clone address is normalized to its server', t => {
  const hosts: Record<string, string> = {
    'https://git.example.com/a/b.git': 'git.example.com:443',
    'HTTP://Git.Example.COM:3000/a/b.git/': 'git.example.com:3000',
    'http://git.example.com./a': 'git.example.com:80',
    'https://bücher.example/a': 'xn--bcher-kva.example:443',
    'http://0x7f.1/a': '127.0.0.1:80',
    'http://2130706433/a': '127.0.0.1:80',
    'http://017700000001/a': '127.0.0.1:80',
    'http://0/a': '0.0.0.0:80',
    'http://127。0．0｡1/a': '127.0.0.1:80',
    'http://①②⑦.⓪.⓪.①/a': '127.0.0.1:80',
    'http://[::ffff:127.0.0.1]:8080/a': '[::ffff:7f00:1]:8080',
  }
  for (const [url, host] of Object.entries(hosts)) t.is(hostAndPort(gitAddress(url)!), host, url)
  t.is(gitAddress('https://git.example.com./a/b.git/')?.url, 'https://git.example.com/a/b.git')
})

test('other than plain web addresses are refused', t => {
  const none = [
    ...[
      '',
      'git.example.com/a',
      '/etc',
      'file:///etc',
      'git://h/a',
      'ssh://h/a',
      'git@h:a/b',
      'gopher://h/a',
      'ext::sh -c id',
    ],
    ...[
      '--upload-pack=id',
      'https://user@h/a',
      'https://user:password@h/a',
      'https://h#@other/a',
      'https://h\\@other/a',
    ],
    ...[
      'https://h/a?x=1',
      'https://h/a b',
      'https://h/a\nb',
      'https://h/\u0000',
      'https:///a',
      'https://',
      'http://-h/a',
    ],
    ...[
      'http://..../a',
      `https://h/${'a'.repeat(3000)}`,
      'https:h/a',
      'http://h:99999/a',
      'http://%00/a',
      'http://1.2.3.4.5/a',
    ],
  ]
  t.deepEqual(
    none.filter(url => gitAddress(url) !== null),
    [],
  )
})

test('servers are allowed by exact host and port', t => {
  const server = gitAddress('http://Forge.internal:3000/a')!
  t.true(isOpened(server, ['other:80', 'FORGE.internal:3000']))
  t.false(isOpened(server, ['forge.internal', 'forge.internal:80', 'x.forge.internal:3000', '*']))
  t.true(isOpened(gitAddress('http://[::1]:3000/a')!, ['[::1]:3000']))
})

test('a token follows a redirect only to its own server, or from http to https on it', t => {
  const keeps = (from: string, to: string) => mayKeepToken(gitAddress(from)!, gitAddress(to)!)
  t.true(keeps('https://h/a', 'https://h/a.git'))
  t.true(keeps('http://h/a', 'https://h/a'))
  t.false(keeps('https://h/a', 'http://h/a'))
  t.false(keeps('https://h/a', 'https://h.evil/a'))
  t.false(keeps('https://h/a', 'https://h:8443/a'))
  t.false(keeps('http://h:3000/a', 'https://h/a'))
  t.is(tokenUser(gitAddress('https://bitbucket.org/a')!), 'x-token-auth')
  t.is(tokenUser(gitAddress('https://h/a')!), 'x-access-token')
})

test('names of branches are valid as in git', t => {
  const legal = ['main', 'feature/a-b', 'grün', '-x', 'a.b', 'x@y', 'UPPER']
  const illegal = [
    '',
    '@',
    'a b',
    'a..b',
    'a~1',
    'a^',
    'a:b',
    'a?',
    'a*',
    'a[',
    'a\\b',
    '/a',
    'a/',
    'a//b',
    '.a',
    'a/.b',
  ]
  t.deepEqual(
    legal.filter(name => !isBranchName(name)),
    [],
  )
  t.deepEqual([...illegal, 'a.lock', 'a.', 'a@{b', 'a\nb', 'a\u0000', 'x'.repeat(257)].filter(isBranchName), [])
})
