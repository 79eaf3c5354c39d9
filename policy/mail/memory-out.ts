import type { MailTemplate } from './template.ts'

/** An application that was terminated because it ran out of memory. */
export type MemoryOut = { app: string; limitMb: number }

export const memoryOut: MailTemplate<MemoryOut> = {
  'pt-BR': ({ app, limitMb }) => ({
    subject: `${app} foi encerrada por falta de memória`,
    text: `Sua aplicação "${app}" precisou de mais do que os ${limitMb} MB de memória que possui e foi encerrada.

Com AUTORESTART=true ela é iniciada novamente, no máximo uma vez por hora; caso contrário, inicie-a você. Para que isso não se repita, aumente MEMORY no arquivo de configuração e faça um novo deploy, ou procure um vazamento de memória.`,
  }),
  'en-US': ({ app, limitMb }) => ({
    subject: `${app} was terminated because it ran out of memory`,
    text: `Your application "${app}" needed more than the ${limitMb} MB of memory it has and was terminated.

With AUTORESTART=true it is restarted automatically, at most once an hour; otherwise start it yourself. To prevent this from happening again, increase MEMORY in the configuration file and deploy again, or look for a memory leak.`,
  }),
  'es-ES': ({ app, limitMb }) => ({
    subject: `${app} se ha cerrado por falta de memoria`,
    text: `Tu aplicación «${app}» ha necesitado más de los ${limitMb} MB de memoria que tiene y se ha cerrado.

Con AUTORESTART=true se vuelve a iniciar, como máximo una vez por hora; si no, iníciala tú. Para que no vuelva a ocurrir, aumenta MEMORY en el archivo de configuración y vuelve a desplegarla, o busca una fuga de memoria.`,
  }),
  'zh-CN': ({ app, limitMb }) => ({
    subject: `${app} 因内存不足已被终止`,
    text: `您的应用“${app}”所需内存超出了可用的 ${limitMb} MB，已被终止。

如果设置了 AUTORESTART=true，应用会自动重新启动（每小时最多一次）；否则请手动启动。为避免再次发生，请在配置文件中调高 MEMORY 并重新部署，或者检查是否存在内存泄漏。`,
  }),
  'ja-JP': ({ app, limitMb }) => ({
    subject: `${app} はメモリ不足のため終了しました`,
    text: `アプリケーション「${app}」は、割り当てられた ${limitMb} MB を超えるメモリを必要としたため終了しました。

AUTORESTART=true の場合は自動的に再起動されます（1 時間に 1 回まで）。それ以外の場合は手動で起動してください。再発を防ぐには、設定ファイルの MEMORY を増やして再デプロイするか、メモリリークがないかご確認ください。`,
  }),
  'fr-FR': ({ app, limitMb }) => ({
    subject: `${app} s'est arrêtée faute de mémoire`,
    text: `Votre application « ${app} » a eu besoin de plus que les ${limitMb} Mo de mémoire dont elle dispose et a été arrêtée.

Avec AUTORESTART=true, elle redémarre d'elle-même, une fois par heure au plus ; sinon, démarrez-la vous-même. Pour que cela ne se reproduise pas, augmentez MEMORY dans le fichier de configuration et redéployez-la, ou recherchez une fuite de mémoire.`,
  }),
  'de-DE': ({ app, limitMb }) => ({
    subject: `${app} wurde wegen Speichermangels beendet`,
    text: `Ihre Anwendung „${app}“ brauchte mehr als ihre ${limitMb} MB Arbeitsspeicher und wurde beendet.

Mit AUTORESTART=true wird sie neu gestartet, höchstens einmal pro Stunde; andernfalls starten Sie sie selbst. Damit es nicht wieder geschieht, erhöhen Sie MEMORY in der Konfigurationsdatei und stellen Sie die Anwendung neu bereit, oder suchen Sie nach einem Speicherleck.`,
  }),
  'it-IT': ({ app, limitMb }) => ({
    subject: `${app} è stata terminata per memoria esaurita`,
    text: `La tua applicazione "${app}" ha avuto bisogno di più dei ${limitMb} MB di memoria a disposizione ed è stata terminata.

Con AUTORESTART=true viene riavviata, al massimo una volta all'ora; altrimenti avviala tu. Perché non succeda di nuovo, aumenta MEMORY nel file di configurazione ed esegui un nuovo deploy, oppure cerca un memory leak.`,
  }),
}
