//! The functions of docs/signatures.md that verify signatures, each run on the test vector of Standard Webhooks and
//! on requests that must be refused.

use std::{
    io::Write,
    path::Path,
    process::{Command, Stdio},
};

use crate::harness::pages::blocks_after;

const COMMENT: &str = "<!-- tests/it/examples/signatures.rs runs the next five blocks -->";

/// One language of the page.
struct Verifier {
    /// The word after the fence of the block.
    fence: &'static str,
    /// The file that the block is written to, alone or with the driver after it.
    file: &'static str,
    /// The file of the driver if the language wants one of its own.
    driver_file: Option<&'static str>,
    /// A program that reads one case per line and prints `true` or `false` for each.
    driver: &'static str,
    /// The commands that compile and run the files.
    commands: &'static [&'static [&'static str]],
}

const PYTHON: Verifier = Verifier {
    fence: "python",
    file: "verify.py",
    driver_file: None,
    driver: r#"
import sys
for line in sys.stdin:
    now, id, sent, signature, body, secrets = line.rstrip("\n").split("\t")
    headers = {"webhook-id": id, "webhook-timestamp": sent, "webhook-signature": signature}
    given = {name: value for name, value in headers.items() if value}
    print(str(verified(given, body.encode(), secrets.split(), int(now))).lower())
"#,
    commands: &[&["python3", "verify.py"]],
};

const NODE: Verifier = Verifier {
    fence: "js",
    file: "verify.js",
    driver_file: None,
    driver: r"
for (const line of require('node:fs').readFileSync(0, 'utf8').trimEnd().split('\n')) {
  const [now, id, sent, signature, body, secrets] = line.split('\t')
  const headers = {}
  if (id) headers['webhook-id'] = id
  if (sent) headers['webhook-timestamp'] = sent
  if (signature) headers['webhook-signature'] = signature
  console.log(verified(headers, Buffer.from(body), secrets.split(' '), Number(now)))
}
",
    commands: &[&["node", "verify.js"]],
};

const GO: Verifier = Verifier {
    fence: "go",
    file: "verify.go",
    driver_file: Some("main.go"),
    driver: r#"
package main

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

func main() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		fields := strings.Split(lines.Text(), "\t")
		now, _ := strconv.ParseInt(fields[0], 10, 64)
		headers := http.Header{}
		for index, name := range []string{"webhook-id", "webhook-timestamp", "webhook-signature"} {
			if value := fields[index+1]; value != "" {
				headers.Set(name, value)
			}
		}
		fmt.Println(verified(headers, []byte(fields[4]), strings.Fields(fields[5]), time.Unix(now, 0)))
	}
}
"#,
    commands: &[&["go", "run", "verify.go", "main.go"]],
};

const PHP: Verifier = Verifier {
    fence: "php",
    file: "verify.php",
    driver_file: None,
    driver: r#"
foreach (file('php://stdin', FILE_IGNORE_NEW_LINES) as $line) {
    [$now, $id, $sent, $signature, $body, $secrets] = explode("\t", $line);
    $server = ['HTTP_WEBHOOK_ID' => $id, 'HTTP_WEBHOOK_TIMESTAMP' => $sent, 'HTTP_WEBHOOK_SIGNATURE' => $signature];
    echo verified(array_filter($server), $body, explode(' ', $secrets), (int) $now) ? 'true' : 'false', "\n";
}
"#,
    commands: &[&["php", "verify.php"]],
};

const JAVA: Verifier = Verifier {
    fence: "java",
    file: "Webhook.java",
    driver_file: Some("Driver.java"),
    driver: r#"
import java.nio.charset.StandardCharsets;
import java.util.*;

class Driver {
    public static void main(String[] args) throws Exception {
        var names = List.of("webhook-id", "webhook-timestamp", "webhook-signature");
        for (var lines = new Scanner(System.in, StandardCharsets.UTF_8); lines.hasNextLine();) {
            var fields = lines.nextLine().split("\t");
            var headers = new HashMap<String, String>();
            for (int index = 0; index < 3; index++) {
                if (!fields[index + 1].isEmpty()) headers.put(names.get(index), fields[index + 1]);
            }
            System.out.println(Webhook.verified(headers::get, fields[4].getBytes(StandardCharsets.UTF_8),
                List.of(fields[5].split(" ")), Long.parseLong(fields[0])));
        }
    }
}
"#,
    commands: &[&["javac", "Webhook.java", "Driver.java"], &["java", "-cp", ".", "Driver"]],
};

/// A request, and whether it must be accepted.
struct Case {
    what: &'static str,
    now: u64,
    sent: &'static str,
    signatures: &'static str,
    body: &'static str,
    secrets: &'static str,
    accepted: bool,
}

const SENT: u64 = 1_649_367_553;
const SIGNATURE: &str = "v1,tZ1I4/hDygAJgO5TYxiSd6Sd0kDW6hPenDe+bTa3Kkw=";
const SECRET: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";

/// The test vector. Every other case changes something of it.
const VECTOR: Case = Case {
    what: "the vector",
    now: SENT,
    sent: "1649367553",
    signatures: SIGNATURE,
    body: r#"{"email":"test@example.com","username":"test_user"}"#,
    secrets: SECRET,
    accepted: true,
};

const CASES: &[Case] = &[
    VECTOR,
    Case { what: "four minutes old", now: SENT + 240, ..VECTOR },
    Case { what: "sent by a clock that is ahead", now: SENT - 240, ..VECTOR },
    Case { what: "too old", now: SENT + 301, accepted: false, ..VECTOR },
    Case { what: "from the future", now: SENT - 301, accepted: false, ..VECTOR },
    Case { what: "another timestamp than signed", sent: "1649367554", accepted: false, ..VECTOR },
    Case { what: "no timestamp", sent: "", accepted: false, ..VECTOR },
    Case { what: "a timestamp in words", sent: "now", accepted: false, ..VECTOR },
    Case {
        what: "a changed body",
        body: r#"{"email":"test@example.com","username":"test_userr"}"#,
        accepted: false,
        ..VECTOR
    },
    Case {
        what: "a body with a space more",
        body: r#"{"email": "test@example.com","username":"test_user"}"#,
        accepted: false,
        ..VECTOR
    },
    Case { what: "no signature", signatures: "", accepted: false, ..VECTOR },
    Case {
        what: "the second of two signatures",
        signatures: "v1,AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA= v1,tZ1I4/hDygAJgO5TYxiSd6Sd0kDW6hPenDe+bTa3Kkw=",
        ..VECTOR
    },
    Case {
        what: "another version of signatures",
        signatures: "v2,tZ1I4/hDygAJgO5TYxiSd6Sd0kDW6hPenDe+bTa3Kkw=",
        accepted: false,
        ..VECTOR
    },
    Case { what: "a signature cut short", signatures: "v1,tZ1I4/hDygAJgO5T", accepted: false, ..VECTOR },
    Case {
        what: "a signature that is not ASCII",
        signatures: "v1,tZ1I4/hDygÄJgO5T",
        accepted: false,
        ..VECTOR
    },
    Case {
        what: "the second of two secrets",
        secrets: "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD",
        ..VECTOR
    },
    Case {
        what: "another secret",
        secrets: "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
        accepted: false,
        ..VECTOR
    },
    Case { what: "a secret without its prefix", secrets: "C2FVsBQIhrscChlQIMV+b5sSYspob7oD", ..VECTOR },
];

impl Verifier {
    /// The block of the page in this language.
    fn block(&self) -> String {
        let mut blocks = blocks_after("docs/signatures.md", COMMENT);
        blocks.retain(|block| block.language == self.fence);
        assert_eq!(blocks.len(), 1, "the page has one block in {}", self.fence);
        blocks.remove(0).code
    }

    /// Runs the commands in `directory`, and returns what the last one prints. Every command reads `input`.
    fn run(&self, directory: &Path, input: &str) -> String {
        let mut printed = String::new();
        for command in self.commands {
            let mut child = Command::new(command[0])
                .args(&command[1..])
                .current_dir(directory)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap_or_else(|error| panic!("{command:?} does not start ({error}); run scripts/test"));
            // A compiler ends without reading its input.
            let _ = child.stdin.take().expect("piped").write_all(input.as_bytes());
            let output = child.wait_with_output().expect("the program ends");
            assert!(output.status.success(), "{command:?}: {}", output.status);
            printed = String::from_utf8(output.stdout).expect("text");
        }
        printed
    }

    fn judges_every_case(&self) {
        let directory = tempfile::tempdir().expect("a directory");
        let write = |file: &str, text: &str| {
            std::fs::write(directory.path().join(file), text).expect("can be written");
        };
        match self.driver_file {
            Some(file) => {
                write(self.file, &self.block());
                write(file, self.driver);
            }
            None => write(self.file, &format!("{}{}", self.block(), self.driver)),
        }
        let lines = CASES.iter().map(|case| {
            let Case { now, sent, signatures, body, secrets, .. } = case;
            format!("{now}\tmsg_27UH4WbU6Z5A5EzD8u03UvzRbpk\t{sent}\t{signatures}\t{body}\t{secrets}\n")
        });
        let printed = self.run(directory.path(), &lines.collect::<String>());
        let judged: Vec<&str> = printed.lines().collect();
        assert_eq!(judged.len(), CASES.len(), "{printed}");
        for (case, accepted) in CASES.iter().zip(judged) {
            assert_eq!(accepted, case.accepted.to_string(), "{}: {}", self.fence, case.what);
        }
    }
}

macro_rules! each_language {
    ($($name:ident $language:ident,)*) => {
        $(#[test]
        fn $name() {
            $language.judges_every_case();
        })*
    };
}

each_language! {
    python_verifies_signatures PYTHON,
    node_verifies_signatures NODE,
    go_verifies_signatures GO,
    php_verifies_signatures PHP,
    java_verifies_signatures JAVA,
}
