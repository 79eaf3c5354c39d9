# Changes the files of a folder without end, in every way that a program can; stopped and woken by signals.
import mmap, os, sys, time
os.chdir(sys.argv[1])
size = 1 << 20
for name in ('hot', 'mapped'):
    with open(name, 'wb') as file:
        file.truncate(size)
hot = os.open('hot', os.O_RDWR)
mapped_fd = os.open('mapped', os.O_RDWR)
mapped = mmap.mmap(mapped_fd, size)
print('ready', flush=True)
turn = 0
while True:
    turn += 1
    text = b'%015d\n' % turn
    os.pwrite(hot, text, turn * 16 % size)
    # Through memory: only a first write to a clean page moves the file's time.
    mapped[0:16] = text
    with open('log', 'ab') as log:
        log.write(text)
    with open('draft', 'wb') as draft:
        draft.write(text * 100)
    os.rename('draft', 'replaced')
    for kind in ('now', 'folder'):
        old = '%s-%d' % (kind, turn - 3)
        new = '%s-%d' % (kind, turn)
        if kind == 'now':
            open(new, 'wb').write(text)
            if os.path.exists(old):
                os.unlink(old)
        else:
            os.makedirs(new + '/inner')
            open(new + '/inner/file', 'wb').write(text)
            if os.path.exists(old):
                os.unlink(old + '/inner/file')
                os.removedirs(old + '/inner')
    os.chmod('replaced', 0o600 + turn % 64)
    time.sleep(0.001)
